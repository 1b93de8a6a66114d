"""The connection of a worker in a Pod to its orchestrator, also across restarts."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.engine.http_channel import JOIN_TIMEOUT_S, MAX_LINES, HttpChannel
from headwater.engine.restart_state import RestartState
from headwater.model.progress_clock import QUIET_AFTER_S, STUCK_AFTER_S
from headwater.model.reading_plan import READ_ALL, IsolationStatus, PartitionPosition, ReadingPlan
from headwater.model.worker_protocol import Heartbeat, WorkerLogLine
from tests.unit.engine.faults import Clock

PLAN = ReadingPlan(isolates_partitions=True, quarantined=(PartitionPosition(1, 7),))


def channel(directory: Path, clock: Clock | None = None) -> HttpChannel:
    return HttpChannel(RestartState(directory), lambda: None, clock=clock or Clock())


def probed_ready(worker: HttpChannel) -> bool:
    return worker.is_ready


def beat(state: str = "ready", progress: int = 0, *texts: str) -> Heartbeat:
    lines = [
        WorkerLogLine(time=datetime(2026, 1, 1, tzinfo=UTC), source="script", level="info", message=text)
        for text in texts
    ]
    return Heartbeat(state=state, spec_hash="h", progress=progress, logs=lines)


def test_a_worker_joins_with_the_plan_of_its_orchestrator(tmp_path: Path) -> None:
    worker = channel(tmp_path)
    assert not worker.may_join(0)
    worker.join(PLAN)
    assert worker.may_join(0)
    assert worker.reading_plan == PLAN


def test_a_restarted_worker_waits_for_a_new_plan_and_then_joins_with_the_last_one(tmp_path: Path) -> None:
    channel(tmp_path).join(PLAN)
    clock = Clock()
    restarted = channel(tmp_path, clock)
    assert not restarted.may_join(0)
    clock.sleep(JOIN_TIMEOUT_S)
    assert restarted.may_join(0)
    assert restarted.reading_plan == PLAN
    joined = channel(tmp_path)
    joined.join(READ_ALL)
    assert joined.may_join(0)
    assert joined.reading_plan == READ_ALL


def test_a_killed_worker_has_told_which_partition_it_read(tmp_path: Path) -> None:
    isolation = IsolationStatus(isolated=PartitionPosition(1, 7))
    assert channel(tmp_path).send(beat().model_copy(update={"isolation": isolation}))
    assert channel(tmp_path).report(0, 0, 0).previous_isolation == isolation


def test_a_stop_is_answered_when_the_worker_has_left_kafka(tmp_path: Path) -> None:
    stopped = threading.Event()
    worker = HttpChannel(RestartState(tmp_path), stopped.set)
    assert not worker.stop(leave_group=True, timeout_s=0)
    assert stopped.is_set()
    assert worker.must_leave_group()
    thread = threading.Thread(target=worker.on_ended)
    thread.start()
    assert worker.stop(leave_group=False, timeout_s=10)
    thread.join()
    assert worker.report(0, 0, 0).has_ended
    assert channel(tmp_path).is_stopping


def test_a_report_comes_as_soon_as_something_changes(tmp_path: Path) -> None:
    worker = channel(tmp_path)
    seen = worker.report(0, 0, 0).version
    worker.send(beat("prepared"))
    first = worker.report(seen, 0, 0)
    assert first.heartbeat is not None
    assert (first.version > seen, first.heartbeat.state) == (True, "prepared")
    worker.send(beat("prepared"))
    assert worker.report(first.version, 0, 0).version == first.version
    thread = threading.Thread(target=worker.send, args=[beat("ready")])
    thread.start()
    assert worker.report(first.version, 0, 10).version > first.version
    thread.join()


def test_lines_are_kept_until_they_were_read(tmp_path: Path) -> None:
    worker = channel(tmp_path)
    worker.send(beat("ready", 0, "one", "two"))
    first = worker.report(0, 0, 0)
    assert [line.message for line in first.lines] == ["one", "two"]
    assert worker.report(0, 0, 0) == first
    worker.send(beat("ready", 0, "three"))
    second = worker.report(0, first.next_line, 0)
    assert [line.message for line in second.lines] == ["three"]
    assert second.heartbeat is not None
    assert second.heartbeat.logs == []
    assert [line.message for line in worker.report(0, 0, 0).lines] == ["three"]
    for number in range(MAX_LINES):
        worker.send(beat("ready", 0, str(number)))
    assert [line.message for line in worker.report(0, 0, 0).lines] == [str(number) for number in range(MAX_LINES)]


def test_lines_of_a_restarted_worker_are_new(tmp_path: Path) -> None:
    worker = channel(tmp_path)
    worker.send(beat("ready", 0, "one"))
    read = worker.report(0, 0, 0).next_line
    restarted = channel(tmp_path)
    restarted.send(beat("starting", 0, "again"))
    assert [line.message for line in restarted.report(0, read, 0).lines] == ["again"]


@pytest.mark.parametrize(("state", "is_ready"), [("ready", True), ("waiting", False), ("prepared", False)])
def test_probes_follow_the_progress(tmp_path: Path, state: str, is_ready: bool) -> None:
    clock = Clock()
    worker = channel(tmp_path, clock)
    assert not worker.is_ready
    worker.send(beat(state, 1))
    assert (worker.is_ready, worker.is_alive) == (is_ready, True)
    clock.sleep(QUIET_AFTER_S)
    worker.send(beat(state, 1))
    assert not probed_ready(worker)
    clock.sleep(STUCK_AFTER_S)
    assert not worker.is_alive
    worker.on_ended()
    assert (worker.is_ready, worker.is_alive) == (False, True)
