"""When heartbeats are due, and the log lines in them."""

from headwater.engine.heartbeat import (
    HEARTBEAT_INTERVAL_S,
    MAX_LINE_CHARS,
    MAX_LINES_PER_HEARTBEAT,
    HeartbeatReporter,
    WorkerLog,
)
from tests.unit.engine.faults import Clock


class TestReporter:
    def test_a_heartbeat_is_due_at_every_change_and_once_a_second(self) -> None:
        clock = Clock()
        reporter = HeartbeatReporter(clock=clock)
        assert reporter.is_due("ready", "")
        reporter.report("ready")
        assert not reporter.is_due("ready", "")
        assert reporter.is_due("waiting", "")
        assert reporter.is_due("ready", "why")
        clock.sleep(HEARTBEAT_INTERVAL_S)
        assert reporter.is_due("ready", "")


class TestWorkerLog:
    def test_bounded_in_lines_and_characters_by_source(self) -> None:
        log = WorkerLog()
        for _ in range(MAX_LINES_PER_HEARTBEAT + 3):
            log.add_script_line("x" * (MAX_LINE_CHARS + 1))
        log.add_worker_line("error", "it ends")
        lines = log.take_lines()
        assert [line.message for line in lines[:-2]] == ["x" * MAX_LINE_CHARS] * MAX_LINES_PER_HEARTBEAT
        assert [(line.source, line.level, line.message) for line in lines[-2:]] == [
            ("worker", "error", "it ends"),
            ("script", "warning", "(3 more lines were dropped)"),
        ]
        assert log.take_lines() == []
