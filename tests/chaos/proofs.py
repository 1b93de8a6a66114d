"""Single hardships, each alone and for long: a busy machine, endless loops in the stream, a set store that is away."""

import contextlib
import itertools
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.chaos.faults import hit
from tests.chaos.trial import Installation, Options, Report, run, summary
from tests.support.proxy import CLEAR, Conditions, Direction
from tests.support.waiting import until

STOP_EVERY_S = 2.0
STOPPED_S = 0.5
TICK_S = 0.02
HOGS = 4
LATE_MS = 2_000
"""What the age of 99 of 100 outputs must stay below while records of the stream loop."""
RESUMED_WITHIN_S = 2.0
"""How soon pipelines must go on when the set store is back."""
SETTLED_RECORDS = 400
ASK_THE_STORE = frozenset(["contains", "filter"])


def busy(directory: Path, options: Options) -> Report:
    """Records of 0.2 ms each on a machine that is full, and V8 stopped every two seconds: no record is blamed."""
    return run(directory, options, _hogs_and_stops)


def _hogs_and_stops(made: Installation, report: Report) -> None:
    assert made.feeder is not None
    feeder, records = made.feeder, report.options["records"]
    stops = 0
    with hogs(HOGS):
        while feeder.count < records:
            time.sleep(STOP_EVERY_S - STOPPED_S)
            stopped = made.stack.sandboxes()
            for pid in stopped:
                hit(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            for pid in stopped:
                hit(pid, signal.SIGCONT)
            stops += 1
        until(lambda: all(f.witness.account.complete(records) for f in made.flows), 3600, "the outputs")
    report.more |= {"hogs": HOGS, "stops": stops}


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes that use all the CPU that they get."""
    context = multiprocessing.get_context("spawn")
    hogs = [context.Process(target=_burn, daemon=True) for _ in range(count)]
    for hog in hogs:
        hog.start()
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.join()


def _burn() -> None:
    for _ in itertools.count():
        pass


def loops(directory: Path, options: Options) -> Report:
    """One record in many loops for ever: the others are late by seconds at most, and the worker never crashes."""
    return run(directory, options, _watch_loops)


def _watch_loops(made: Installation, report: Report) -> None:
    assert made.feeder is not None
    feeder, records = made.feeder, report.options["records"]
    crashing = 0
    with made.stack.client() as client:
        while feeder.count < records:
            crashing = max([crashing, *(flow.stats(client).get("crashing_workers", 0) for flow in made.flows)])
            time.sleep(1.0)
    for flow in made.flows:
        p99 = summary(flow.witness.ages_ms)["p99"]
        if p99 > LATE_MS:
            report.late.append(f"{flow.name}: of 99 of 100 outputs the age is up to {p99} ms")
    if crashing:
        report.faults.append("a worker was shown as crashing")


def away(directory: Path, options: Options, away_s: float, *, silent: bool) -> Report:
    """The set store is away for a while: who asks it waits, the others don't notice, nobody restarts.

    silent: connections stay and say nothing; else they are refused.
    """
    held: frozenset[Direction] = frozenset(["to_server", "to_client"])
    conditions = Conditions(held=held) if silent else Conditions(refused=True)

    def disturb(made: Installation, report: Report) -> None:
        link = made.proxies["valkey"]
        take_the_set_store(made, report, away_s, partial(link.set, conditions), partial(link.set, CLEAR))

    return run(directory, options, disturb)


def take_the_set_store(
    made: Installation, report: Report, away_s: float, take: Callable[[], None], give_back: Callable[[], None]
) -> None:
    """Take the set store away from running pipelines, and look at what they do."""
    assert made.feeder is not None
    feeder = made.feeder
    until(lambda: feeder.count > SETTLED_RECORDS and made.newest_ms > 0, what="a running stream")
    workers = set(made.stack.workers())
    take()
    behind_s = _furthest_behind(made, time.time() + away_s)
    give_back()
    back = time.time()
    until(lambda: made.newest_ms > back * 1000, what="the return of all pipelines")
    resumed_s = round(time.time() - back, 2)
    report.more |= {"away_s": away_s, "furthest_behind_s": behind_s, "resumed_s": resumed_s}
    if set(made.stack.workers()) != workers:
        report.faults.append("a worker was restarted")
    asking = {name for name, behind in behind_s.items() if behind > away_s / 2}
    if asking != {flow.name for flow in made.flows} & ASK_THE_STORE:
        report.faults.append(f"these waited for the set store: {sorted(asking)}")
    if resumed_s > RESUMED_WITHIN_S:
        report.late.append(f"they went on {resumed_s} s after its return")


def _furthest_behind(made: Installation, end: float) -> dict[str, float]:
    """How far each pipeline fell behind the stream, at most, until `end`."""
    worst = {flow.name: 0.0 for flow in made.flows}
    while (now := time.time()) < end:
        time.sleep(TICK_S)
        for flow in made.flows:
            worst[flow.name] = max(worst[flow.name], round(now - flow.witness.newest_ms / 1000, 2))
    return worst
