"""Heartbeats on a file descriptor that may be full or closed."""

import json
import os
import socket
from datetime import UTC, datetime

import pytest

from headwater.engine.heartbeat import (
    HEARTBEAT_INTERVAL_S,
    MAX_LINE_CHARS,
    MAX_LINES_PER_HEARTBEAT,
    SupervisorChannel,
    WorkerLog,
)
from headwater.errors import WorkerError
from headwater.model.worker_protocol import JOIN, LEAVE, Heartbeat, WorkerLogLine
from tests.unit.engine.faults import Clock


def beat(state: str = "ready", reason: str = "", text: str = "") -> Heartbeat:
    line = WorkerLogLine(time=datetime(2026, 1, 1, tzinfo=UTC), source="script", level="info", message=text)
    return Heartbeat(state=state, spec_hash="h", reason=reason, logs=[line] if text else [])


class TestProbe:
    def test_a_heartbeat_is_due_at_every_change_and_once_a_second(self) -> None:
        clock = Clock()
        probe = SupervisorChannel(None, clock)
        assert probe.due("ready", "")
        probe.send(beat())
        assert not probe.due("ready", "")
        assert probe.due("waiting", "")
        assert probe.due("ready", "why")
        clock.sleep(HEARTBEAT_INTERVAL_S)
        assert probe.due("ready", "")

    def test_lines_of_json(self) -> None:
        read_fd, write_fd = os.pipe()
        probe = SupervisorChannel(write_fd)
        probe.send(beat())
        probe.send(beat("waiting", "store away"))
        os.close(write_fd)
        with os.fdopen(read_fd) as lines:
            assert [json.loads(line)["state"] for line in lines] == ["ready", "waiting"]

    def test_a_full_pipe_loses_whole_lines_and_never_blocks(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            probe = SupervisorChannel(theirs.fileno())
            for number in range(200):
                probe.send(beat(reason=str(number), text="x" * 4000))
            ours.setblocking(False)
            received = b""
            for number in range(200, 203):
                try:
                    while chunk := ours.recv(1 << 20):
                        received += chunk
                except BlockingIOError:
                    probe.send(beat(reason=str(number)))
            *lines, rest = received.split(b"\n")
            assert rest == b""
            reasons = [int(json.loads(line)["reason"]) for line in lines]
            assert reasons == sorted(set(reasons))
            assert 0 < len(reasons) < 200

    def test_a_supervisor_that_has_ended(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            probe = SupervisorChannel(theirs.fileno())
            ours.close()
            probe.send(beat())
            probe.send(beat())


class TestWorkerLog:
    def test_bounded_in_lines_and_characters_by_source(self) -> None:
        log = WorkerLog()
        for _ in range(MAX_LINES_PER_HEARTBEAT + 3):
            log.add_script_line("x" * (MAX_LINE_CHARS + 1))
        log.add_worker_line("error", "it ends")
        lines = log.drain()
        assert [line.message for line in lines[:-2]] == ["x" * MAX_LINE_CHARS] * MAX_LINES_PER_HEARTBEAT
        assert [(line.source, line.level, line.message) for line in lines[-2:]] == [
            ("worker", "error", "it ends"),
            ("script", "warning", "(3 more lines were dropped)"),
        ]
        assert log.drain() == []


class TestJoin:
    def test_waits_for_the_supervisors_word(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            probe = SupervisorChannel(theirs.fileno())
            assert not probe.may_join(0)
            ours.send(JOIN)
            assert probe.may_join(10)
            assert probe.may_join(0)

    def test_no_worker_may_join_without_its_supervisor(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.close()
            with pytest.raises(WorkerError, match="supervisor process has ended"):
                SupervisorChannel(theirs.fileno()).may_join(10)

    def test_a_worker_that_has_lost_its_supervisor_may_not_join(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            probe = SupervisorChannel(theirs.fileno())
            ours.close()
            probe.send(beat("starting"))
            with pytest.raises(WorkerError, match="supervisor process has ended"):
                probe.may_join(0)

    def test_the_worker_leaves_the_group_if_the_supervisor_says_so(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            probe = SupervisorChannel(theirs.fileno())
            ours.send(JOIN)
            assert probe.may_join(10)
            assert not probe.may_leave()
            ours.send(LEAVE)
            assert probe.may_leave()
            ours.close()
            assert not probe.may_leave()
        assert not SupervisorChannel(None).may_leave()

    def test_a_worker_without_a_supervisor_joins_immediately(self) -> None:
        assert SupervisorChannel(None).may_join(0)
