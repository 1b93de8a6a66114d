"""Tests of single faults that last for a long time.

The faults are a busy machine, endless loops in scripts, and an unavailable Valkey.
"""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.chaos.faults import send_signal
from tests.chaos.run import Environment, RunOptions, RunReport, run, summary
from tests.support.proxy import CLEAR, Conditions, Direction
from tests.support.waiting import until

STOP_EVERY_S = 2.0
STOPPED_S = 0.5
TICK_S = 0.02
HOGS = 4
LATE_MS = 2_000
"""The limit of the p99 of the outputs' age while scripts loop endlessly on some records."""
RESUMED_WITHIN_S = 2.0
"""The limit of the time until pipelines continue when Valkey is available again."""
SETTLED_RECORDS = 400
LOOKUP_PIPELINES = frozenset(["contains", "filter"])


def busy(directory: Path, options: RunOptions) -> RunReport:
    """Run a script of 0.2 ms per record on a busy machine, and stop V8 every two seconds.

    No record may fail.
    """
    return run(directory, options, _load_and_stop)


def _load_and_stop(environment: Environment, report: RunReport) -> None:
    assert environment.feeder is not None
    feeder, records = environment.feeder, report.options["records"]
    stops = 0
    with hogs(HOGS):
        while feeder.count < records:
            time.sleep(STOP_EVERY_S - STOPPED_S)
            stopped = environment.installation.sandboxes()
            for pid in stopped:
                send_signal(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            for pid in stopped:
                send_signal(pid, signal.SIGCONT)
            stops += 1
        until(
            lambda: all(pipeline.consumer.verifier.complete(records) for pipeline in environment.pipelines),
            3600,
            "the outputs",
        )
    report.figures |= {"hogs": HOGS, "stops": stops}


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Run processes for the block that use as much CPU as they can get."""
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
    parent = os.getppid()
    while os.getppid() == parent:
        sum(range(1_000_000))


def loops(directory: Path, options: RunOptions) -> RunReport:
    """Feed some records on which the script loops endlessly.

    Other records may be late by seconds at most, and the worker must not crash.
    """
    return run(directory, options, _watch_loops)


def _watch_loops(environment: Environment, report: RunReport) -> None:
    assert environment.feeder is not None
    feeder, records = environment.feeder, report.options["records"]
    crashing = 0
    with environment.installation.client() as client:
        while feeder.count < records:
            crashing = max(
                [crashing, *(pipeline.stats(client).get("crashing_workers", 0) for pipeline in environment.pipelines)]
            )
            time.sleep(1.0)
    for pipeline in environment.pipelines:
        p99 = summary(pipeline.consumer.ages_ms)["p99"]
        if p99 > LATE_MS:
            report.late.append(f"{pipeline.name}: the p99 of the outputs' age is {p99} ms")
    if crashing:
        report.faults.append("a worker was shown as crashing")


def outage(directory: Path, options: RunOptions, outage_s: float, *, silent: bool) -> RunReport:
    """Make Valkey unavailable for a while.

    Only pipelines with lookups may wait, and no worker may restart.

    Connections to the store hang if `silent`, and are refused otherwise.
    """
    held: frozenset[Direction] = frozenset(["to_server", "to_client"])
    conditions = Conditions(held=held) if silent else Conditions(refused=True)

    def disturb(environment: Environment, report: RunReport) -> None:
        link = environment.proxies["valkey"]
        interrupt_valkey(environment, report, outage_s, partial(link.set, conditions), partial(link.set, CLEAR))

    return run(directory, options, disturb)


def interrupt_valkey(
    environment: Environment,
    report: RunReport,
    outage_s: float,
    make_unavailable: Callable[[], None],
    make_available: Callable[[], None],
) -> None:
    """Make Valkey unavailable while pipelines run, and check how they react."""
    assert environment.feeder is not None
    feeder = environment.feeder
    until(lambda: feeder.count > SETTLED_RECORDS and environment.newest_ms > 0, what="a running stream")
    workers = set(environment.installation.workers())
    make_unavailable()
    behind_s = _furthest_behind(environment, time.time() + outage_s)
    make_available()
    available_at = time.time()
    until(lambda: environment.newest_ms > available_at * 1000, what="outputs of all pipelines")
    resumed_s = round(time.time() - available_at, 2)
    report.figures |= {"outage_s": outage_s, "furthest_behind_s": behind_s, "resumed_s": resumed_s}
    if set(environment.installation.workers()) != workers:
        report.faults.append("a worker was restarted")
    waiting = {name for name, behind in behind_s.items() if behind > outage_s / 2}
    if waiting != {pipeline.name for pipeline in environment.pipelines} & LOOKUP_PIPELINES:
        report.faults.append(f"unexpected set of pipelines that waited for Valkey: {sorted(waiting)}")
    if resumed_s > RESUMED_WITHIN_S:
        report.late.append(f"the pipelines continued {resumed_s} s after Valkey was available again")


def _furthest_behind(environment: Environment, end: float) -> dict[str, float]:
    """Return the largest lag of each pipeline behind the stream until `end`, in seconds."""
    worst = {pipeline.name: 0.0 for pipeline in environment.pipelines}
    while (now := time.time()) < end:
        time.sleep(TICK_S)
        for pipeline in environment.pipelines:
            lag_s = round(now - pipeline.consumer.newest_ms / 1000, 2)
            worst[pipeline.name] = max(worst[pipeline.name], lag_s)
    return worst
