"""Measures the console in Chromium: `python -m benches.console [--minutes 60]`.

Chromium's own trace shows the tasks of the page's main thread while a list of 500 pipelines and a tail of 50,000
records are scrolled, and while the crosshair moves over the plots of a week. The reference is a plain table of 500 rows
that is scrolled in the same way.

The first load is measured with an empty cache; its reference is `/healthz` as a page. The memory of a page that tails
200 records per second is the JavaScript heap after a garbage collection. Ten scripted editors send the validations that
the page sends while somebody types; the references are the same lists and deploys without editors.

All of it runs on this machine together: API, stores, Kafka, workers and Chromium.
"""

import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import typer
from playwright.sync_api import Browser, Page, Route, expect

from benches._browser import Heap, Work, chromium, new_page, scroll, traced
from benches._installation import running_installation
from benches.overview import START_WITHIN_S, deploy, serving, write_metrics
from benches.trials import FLOW, body, measure_deploys, measure_lists, script
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.model.key import DEFAULT_SCOPES
from headwater.model.metric import Histogram, MetricsDelta, PartitionCounts
from headwater.services.ids import new_id, utc_now
from headwater.services.keys import Keys
from headwater.settings import Settings
from headwater.stores.redis.client import connect
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.sql.database import Database
from tests.acceptance.installation import Installation, in_background
from tests.support.ports import free_port
from tests.support.sql import OWNER, a_config, a_flow

PIPELINES = 500
LOADS = 7
RECORDS = 50_000
RECORDS_PER_TAIL, RECORDS_PER_EVENT = 5_000, 200
CHAIN, ENTITY = "base", "log"
RATE = 200
EDITORS, EDIT_EVERY_S = 10, 0.5
HOURS = 24 * 7
SCROLLED_PX = 15_000
HEAP_EVERY_S = 30.0
MAX_KB, MAX_FIRST_PAINT_MS = 350, 1000
MAX_TASK_MS, MAX_FRAME_MS = 50, 8
MAX_DEPLOY_S, MAX_LIST_P99_MS = 3, 100
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
TRANSFERRED = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter(({ name }) => !name.includes("/api/")).reduce((sum, { transferSize }) => sum + transferSize, 0)
"""


def report(name: str, figure: str, aim: str, reference: str = "") -> None:
    typer.echo(f"{name}: {figure} (aim {aim})" + (f"; {reference}" if reference else ""))


def report_work(name: str, work: Work, reference: Work | None = None) -> None:
    text = f"longest task {work.longest:.0f} ms ({work.longest_cpu:.0f} ms of CPU), script and layout p95 "
    text += f"{work.frame_p95:.1f} ms a frame, with painting {work.painted_p95:.1f} ms ({work.painted_p95_cpu:.1f} ms "
    text += f"of CPU), main thread {work.busy:.0%} busy"
    ratio = f"{work.painted_p95_cpu / reference.painted_p95_cpu:.1f} x the CPU of the plain table" if reference else ""
    report(name, text, f"{MAX_TASK_MS} ms, {MAX_FRAME_MS} ms", ratio)


def fill(database: Database, metrics: RedisMetrics) -> str:
    """Store PIPELINES deployed configurations with an hour of metrics.

    One of them has a week of metrics. Return its id.
    """
    config = a_config(transforms=[{"uid": "t1", "type": "v8", "script": "function process(r) { return r; }"}])
    config_id, deployment_ids = "", []
    for number in range(PIPELINES):
        flow = replace(a_flow(new_id(), name=f"pipeline {number}", pipeline_config=config), created_at=utc_now())
        database.flows.create(flow)
        config_id = flow.id
        deployment_ids.append(deploy(database, config_id))
    week_of(metrics, deployment_ids[-1])
    write_metrics(metrics, deployment_ids)
    return config_id


def week_of(metrics: RedisMetrics, deployment_id: str) -> None:
    """Write the metrics of a week, without its last hours."""
    times = Histogram()
    for number in range(30):
        times.add(1.2**number)
    now = int(time.time()) // 3600 * 3600
    for hour in range(now - 3600 * HOURS, now - 3600, 3600):
        counts = PartitionCounts(hour, {"messages_received": random.randrange(10**6), "messages_sent": 1_000})
        delta = MetricsDelta(
            hour, {0: counts}, {"data_age": times, "total_latency": times, "processing_latency": times}
        )
        metrics.write(deployment_id, "g", "w", delta)


@contextmanager
def filled_api() -> Iterator[tuple[str, str, str]]:
    """Run an API process on filled stores, without Kafka.

    Yield its address, a key and the id of a configuration.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        kafka = f"127.0.0.1:{free_port()}"
        endpoints = Endpoints.from_settings(Settings(data_dir=Path(folder), kafka_bootstrap_servers=kafka))
        endpoints.data_directory.create()
        valkey = endpoints.embedded_valkey()
        child = valkey.start()
        stack.callback(child.stop, grace_s=5.0)
        valkey.wait_ready(child, START_WITHIN_S)
        with connect_database(endpoints) as database, closing(connect(valkey.url)) as client:
            key = Keys(database.keys, utc_now, time.monotonic).create(OWNER, DEFAULT_SCOPES)
            config_id = fill(database, RedisMetrics(client))
        environment = {
            "HEADWATER_DATA_DIR": folder,
            "HEADWATER_REDIS_URL": valkey.url,
            "HEADWATER_KAFKA_BOOTSTRAP_SERVERS": kafka,
            "HEADWATER_KAFKA_PASSWORD": "unused",
        }
        port = free_port()
        stack.enter_context(serving(environment, port))
        yield f"http://127.0.0.1:{port}", key, config_id


def first_paint(browser: Browser, key: str, url: str, text: str) -> tuple[float, float]:
    """Load an address with an empty cache.

    Return the ms until the first paint, and the transferred kB.
    """
    with new_page(browser, key) as page:
        page.goto(url)
        expect(page.get_by_text(text).first).to_be_visible()
        page.wait_for_function(FIRST_PAINT)
        return float(page.evaluate(FIRST_PAINT)), float(page.evaluate(TRANSFERRED)) / 1000


def measure_load(browser: Browser, url: str, key: str) -> None:
    """Print the first load."""
    loads = [first_paint(browser, key, f"{url}/console/pipelines", "pipeline 1") for _ in range(LOADS)]
    bare = statistics.median(first_paint(browser, key, f"{url}/healthz", "ok")[0] for _ in range(LOADS))
    paint, size = (statistics.median(each) for each in zip(*loads, strict=True))
    report("first load, compressed", f"{size:.0f} kB", f"{MAX_KB} kB")
    report(
        "first paint", f"{paint:.0f} ms", f"{MAX_FIRST_PAINT_MS} ms", f"{paint / bare:.1f} x /healthz ({bare:.0f} ms)"
    )


def plain_table(browser: Browser) -> Work:
    """Return the work of scrolling a table without any script."""
    row = f"<tr>{'<td>12.4 k/s</td>' * 8}</tr>"
    with new_page(browser, "") as page:
        page.set_content(f"<table style='width: 100%; line-height: 36px'>{row * PIPELINES}</table>")
        return traced(browser, page, lambda: scroll(page, "table", SCROLLED_PX))


def measure_list(browser: Browser, url: str, key: str, plain: Work) -> None:
    """Print the work of the list of pipelines: its first rows, a refresh, and scrolling."""
    with new_page(browser, key) as page:
        rows = page.get_by_text("pipeline 1").first

        def open_list() -> None:
            page.goto(f"{url}/console/pipelines")
            expect(rows).to_be_visible()

        opened = traced(browser, page, open_list)
        typer.echo(
            f"{PIPELINES} pipelines, opened: longest task {opened.longest:.0f} ms ({opened.longest_cpu:.0f} ms of CPU)"
        )
        report_work(f"{PIPELINES} pipelines, refreshed", traced(browser, page, lambda: page.wait_for_timeout(11_000)))
        report_work(
            f"{PIPELINES} pipelines, scrolled", traced(browser, page, lambda: scroll(page, "table", SCROLLED_PX)), plain
        )


def measure_plots(browser: Browser, url: str, key: str, config_id: str) -> None:
    """Print the work of the crosshair over the plots of a week."""
    with new_page(browser, key) as page:
        page.goto(f"{url}/console/pipelines/{config_id}/overview?range=1w")
        plots = page.locator("figure canvas")
        expect(plots).to_have_count(4, timeout=30_000)
        boxes = [box for plot in plots.all() if (box := plot.bounding_box())]

        def move() -> None:
            for box in boxes:
                middle = box["y"] + box["height"] / 2
                for step in range(100):
                    page.mouse.move(box["x"] + box["width"] * (0.1 + 0.8 * step / 100), middle)

        report_work("plots of a week, crosshair", traced(browser, page, move))


def tail_events(first: int) -> bytes:
    """Return a response of a tail with RECORDS_PER_TAIL records."""
    events = []
    for begin in range(first, first + RECORDS_PER_TAIL, RECORDS_PER_EVENT):
        records = [shown(number) for number in range(begin, begin + RECORDS_PER_EVENT)]
        events.append(f"event: records\ndata: {json.dumps(records)}\n\n")
    return "".join(events).encode()


def record(number: int) -> dict[str, Any]:
    return {"n": number, "transaction_hash": f"0x{number:064x}", "log_index": 0, "data": "0x" + "ab" * 300}


def shown(number: int) -> dict[str, Any]:
    """Return a record of the stream as a tail shows it."""
    return {
        "of": f"{CHAIN}/{ENTITY}",
        "record": record(number),
        "partition": number % 4,
        "offset": number // 4,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "key": f"0x{number:064x}:0",
    }


class FullTail:
    """Fills the tail of a page at once, since a tail shows 200 records per second.

    After that, the page gets the API's own tail.
    """

    def __init__(self) -> None:
        self._sent = 0

    def __call__(self, route: Route) -> None:
        if self._sent == RECORDS:
            route.continue_()
            return
        route.fulfill(content_type="text/event-stream", body=tail_events(self._sent))
        self._sent += RECORDS_PER_TAIL


def feeding(installation: Installation) -> Callable[[threading.Event], None]:
    """Return a function that writes RATE records per second to the stream."""

    def feed(stop: threading.Event) -> None:
        started, sent = time.monotonic(), 0
        while not stop.wait(0.02):
            due = int((time.monotonic() - started) * RATE)
            installation.feed(CHAIN, ENTITY, map(record, range(sent, due)))
            sent = due

    return feed


def open_full_tail(page: Page, installation: Installation) -> None:
    page.route("**/api/v1/flow/tail?*", FullTail())
    page.goto(f"{installation.url}/console/streams/{CHAIN}/{ENTITY}?view=live")
    expect(page.get_by_text(f"{RECORDS:,} records")).to_be_visible(timeout=120_000)
    expect(page.get_by_role("status").get_by_text("Live", exact=True)).to_be_visible(timeout=30_000)


def measure_tail(browser: Browser, installation: Installation, plain: Work, minutes: float) -> None:
    """Print the work of a full tail, and its memory over some minutes."""
    with new_page(browser, installation.key) as page, in_background(feeding(installation)):
        open_full_tail(page, installation)
        name = f"{RECORDS:,} records and {RATE}/s"
        watched = traced(browser, page, lambda: page.wait_for_timeout(5_000))
        report_work(f"{name}, watched", watched)
        viewport = "[aria-label=Records]"
        report_work(f"{name}, scrolled", traced(browser, page, lambda: scroll(page, viewport, SCROLLED_PX)), plain)
        searched = page.get_by_label("Filter the records")

        def search() -> None:
            searched.press_sequentially("ff", delay=300)
            page.wait_for_timeout(2_000)

        report_work(f"{name}, searched", traced(browser, page, search))
        searched.clear()
        measure_memory(page, minutes)


def measure_memory(page: Page, minutes: float) -> None:
    """Print the heap of a page at the begin and at the end, and its slope between."""
    heap = Heap(page)
    sizes, nodes, until = [heap.megabytes()], [heap.nodes()], time.monotonic() + 60 * minutes
    while (left := until - time.monotonic()) > 0:
        page.wait_for_timeout(1000 * min(HEAP_EVERY_S, left))
        sizes.append(heap.megabytes())
        nodes.append(heap.nodes())
    half = len(sizes) // 2
    growth = statistics.mean(sizes[half:]) / statistics.mean(sizes[:half])
    report(
        f"memory in {minutes:g} minutes of {RATE} records/s",
        f"{sizes[0]:.0f} MB, then {sizes[-1]:.0f} MB; {nodes[0]:,} nodes, then {nodes[-1]:,}",
        "flat",
        f"the mean of the second half is {growth:.3f} x that of the first",
    )


def editor(installation: Installation, key: str, times: list[float]) -> Callable[[threading.Event], None]:
    """Return a function that tries a script after each change, as the page does."""

    def edit(stop: threading.Event) -> None:
        with installation.client(key) as client:
            number = 0
            while not stop.wait(EDIT_EVERY_S):
                number += 1
                text = f"function process(r) {{ r.edit = {number}; return r; }}"
                started = time.monotonic()
                sent = client.post(f"{FLOW}/validate", json=body(script(text), sample={"last": 20}))
                assert sent.status_code == 200, sent.text
                times.append(time.monotonic() - started)

    return edit


def measure_editors(installation: Installation, client: httpx2.Client) -> None:
    """Print lists and deploys while EDITORS type, and without them."""
    installation.feed(CHAIN, ENTITY, map(record, range(1_000)))
    lists, deploys = measure_lists(client), measure_deploys(client)
    times: list[float] = []
    with ExitStack() as stack:
        for key in keys(installation):
            stack.enter_context(in_background(editor(installation, key, times)))
        time.sleep(5)
        busy_lists, busy_deploys = measure_lists(client), measure_deploys(client)
    report(
        f"{EDITORS} editors type, lists p99",
        f"{busy_lists * 1000:.0f} ms",
        f"{MAX_LIST_P99_MS} ms",
        f"{busy_lists / lists:.1f} x without editors ({lists * 1000:.0f} ms)",
    )
    report(
        f"{EDITORS} editors type, slowest deploy",
        f"{busy_deploys:.1f} s",
        f"{MAX_DEPLOY_S} s",
        f"{busy_deploys / deploys:.1f} x without editors ({deploys:.1f} s)",
    )
    p99 = statistics.quantiles(times, n=100)[98]
    typer.echo(f"  their {len(times)} trials of 20 records: p50 {statistics.median(times):.2f} s, p99 {p99:.2f} s")


def keys(installation: Installation) -> Sequence[str]:
    """Return the keys of EDITORS owners."""
    return [installation.run("keys", "create", "--owner", f"o{n}").stdout.strip() for n in range(EDITORS)]


def main(minutes: float = 3) -> None:
    """Run the benchmark. The memory is measured over some minutes."""
    with chromium() as browser:
        plain = plain_table(browser)
        report_work("plain table, scrolled", plain)
        with filled_api() as (url, key, config_id):
            measure_load(browser, url, key)
            measure_list(browser, url, key, plain)
            measure_plots(browser, url, key, config_id)
        with running_installation() as installation, installation.client() as client:
            measure_tail(browser, installation, plain, minutes)
            measure_editors(installation, client)


if __name__ == "__main__":
    typer.run(main)
