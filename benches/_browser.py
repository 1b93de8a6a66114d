"""Runs Chromium for benchmarks: pages, traces of their main threads, and their memory."""

import json
import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, ViewportSize, sync_playwright

VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
CATEGORIES = (
    "toplevel",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "disabled-by-default-devtools.timeline.frame",
)
FRAME_MS = 1000 / 60
SCRIPT = frozenset(
    {"EvaluateScript", "FunctionCall", "RunMicrotasks", "TimerFire", "FireAnimationFrame", "EventDispatch"}
)
LAYOUT = frozenset({"UpdateLayoutTree", "Layout", "PrePaint", "HitTest"})
PAINT = frozenset({"Paint", "Layerize"})
KEY_SCRIPT = "(() => sessionStorage.setItem('headwater-key', {key}))()"
"""Signs in without the form. {key} is the key as JSON."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Debian's Chromium during the block."""
    path = shutil.which("chromium")
    assert path is not None, "The benchmark needs the package chromium."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def new_page(browser: Browser, key: str) -> Iterator[Page]:
    """Open an empty page with an empty cache, whose visits to the console are signed in."""
    context: BrowserContext = browser.new_context(viewport=VIEWPORT)
    context.add_init_script(KEY_SCRIPT.format(key=json.dumps(key)))
    try:
        yield context.new_page()
    finally:
        context.close()


class Work(NamedTuple):
    """The work of the main thread of a page in a trace, in ms.

    Attributes:
        longest: The longest task.
        longest_cpu: The longest task in CPU time of the thread, which other processes do not lengthen.
        frame_p95: The 95th percentile of script and layout in a frame, of the frames that had any.
        painted_p95: The same with painting.
        painted_p95_cpu: The same with painting, in CPU time of the thread.
        busy: The share of the time in which tasks ran.
    """

    longest: float
    longest_cpu: float
    frame_p95: float
    painted_p95: float
    painted_p95_cpu: float
    busy: float


def traced(browser: Browser, page: Page, work: Callable[[], object]) -> Work:
    """Return what the main thread of a page does while `work` runs."""
    browser.start_tracing(page=page, categories=CATEGORIES)
    try:
        work()
    finally:
        trace = browser.stop_tracing()
    return _work(json.loads(trace)["traceEvents"])


def _work(events: Sequence[Mapping[str, Any]]) -> Work:
    """Return the work of the busiest main thread of a renderer in a trace."""
    main_threads: dict[tuple[int, int], list[Mapping[str, Any]]] = {
        (event["pid"], event["tid"]): []
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    for event in events:
        if event["ph"] == "X" and (event["pid"], event["tid"]) in main_threads:
            main_threads[event["pid"], event["tid"]].append(event)
    found = max(main_threads.values(), key=len)
    tasks, painted = _named(found, {"RunTask"}), _named(found, SCRIPT | LAYOUT | PAINT)
    span_us = max(e["ts"] + e["dur"] for e in tasks) - min(e["ts"] for e in tasks)
    return Work(
        longest=max(event["dur"] for event in tasks) / 1000,
        longest_cpu=max(event.get("tdur", 0) for event in tasks) / 1000,
        frame_p95=_frame_p95(_named(found, SCRIPT | LAYOUT), "ts", "dur"),
        painted_p95=_frame_p95(painted, "ts", "dur"),
        painted_p95_cpu=_frame_p95([event for event in painted if "tdur" in event], "tts", "tdur"),
        busy=sum(event["dur"] for event in tasks) / span_us,
    )


def _named(events: Iterable[Mapping[str, Any]], names: Set[str]) -> list[Mapping[str, Any]]:
    return [event for event in events if event["name"] in names]


def _frame_p95(events: Iterable[Mapping[str, Any]], start: str, duration: str) -> float:
    """Return the 95th percentile of the ms of these events in the frames that have any.

    Nested events count once. The frames are intervals of FRAME_MS, since a page that keeps up draws in each of them.

    Args:
        events: The events of a thread.
        start: The member with the start of an event, in µs of the clock or of the thread's CPU time.
        duration: The member with its duration on the same scale.
    """
    frames: dict[int, float] = {}
    end_us = 0.0
    for event in sorted(events, key=lambda each: (each[start], -each[duration])):
        begin, until = max(event[start], end_us), event[start] + event[duration]
        if until > begin:
            frame = int(event["ts"] / 1000 / FRAME_MS)
            frames[frame] = frames.get(frame, 0.0) + (until - begin) / 1000
            end_us = until
    return statistics.quantiles(frames.values(), n=20)[18]


def scroll(page: Page, selector: str, distance: int, speed: int = 4_000) -> None:
    """Scroll an element down by some pixels, with `speed` pixels a second."""
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    middle = {"x": box["x"] + box["width"] / 2, "y": min(box["y"] + box["height"] / 2, VIEWPORT["height"] - 100)}
    gesture = {**middle, "yDistance": -distance, "speed": speed, "gestureSourceType": "mouse"}
    session.send("Input.synthesizeScrollGesture", gesture)
    session.detach()


class Heap:
    """The JavaScript heap and the elements of a page."""

    def __init__(self, page: Page) -> None:
        self._session: CDPSession = page.context.new_cdp_session(page)

    def megabytes(self) -> float:
        """Return the size of the heap after a garbage collection."""
        self._session.send("HeapProfiler.collectGarbage")
        return float(self._session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    def nodes(self) -> int:
        """Return the number of DOM nodes, those without a document included."""
        return int(self._session.send("Memory.getDOMCounters")["nodes"])
