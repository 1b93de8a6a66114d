"""A worker's end of the socket pair, which may be full or closed."""

import json
import os
import socket
from datetime import UTC, datetime

import pytest

from headwater.engine.orchestrator_channel import NoOrchestrator, SocketPairChannel
from headwater.errors import WorkerError
from headwater.model.worker_protocol import JOIN, LEAVE, Heartbeat, WorkerLogLine


def beat(state: str = "ready", reason: str = "", text: str = "") -> Heartbeat:
    line = WorkerLogLine(time=datetime(2026, 1, 1, tzinfo=UTC), source="script", level="info", message=text)
    return Heartbeat(state=state, spec_hash="h", reason=reason, logs=[line] if text else [])


class TestChannel:
    def test_lines_of_json(self) -> None:
        read_fd, write_fd = os.pipe()
        channel = SocketPairChannel(write_fd)
        channel.send(beat())
        channel.send(beat("waiting", "store away"))
        os.close(write_fd)
        with os.fdopen(read_fd) as lines:
            assert [json.loads(line)["state"] for line in lines] == ["ready", "waiting"]

    def test_a_full_pipe_loses_whole_lines_and_never_blocks(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = SocketPairChannel(theirs.fileno())
            for number in range(200):
                channel.send(beat(reason=str(number), text="x" * 4000))
            ours.setblocking(False)
            received = b""
            for number in range(200, 203):
                try:
                    while chunk := ours.recv(1 << 20):
                        received += chunk
                except BlockingIOError:
                    channel.send(beat(reason=str(number)))
            *lines, rest = received.split(b"\n")
            assert rest == b""
            reasons = [int(json.loads(line)["reason"]) for line in lines]
            assert reasons == sorted(set(reasons))
            assert 0 < len(reasons) < 200

    def test_an_orchestrator_that_has_ended(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            channel = SocketPairChannel(theirs.fileno())
            ours.close()
            channel.send(beat())
            channel.send(beat())


class TestJoin:
    def test_waits_for_the_orchestrators_message(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = SocketPairChannel(theirs.fileno())
            assert not channel.may_join(0)
            ours.send(JOIN)
            assert channel.may_join(10)
            assert channel.may_join(0)

    def test_no_worker_may_join_without_its_orchestrator(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.close()
            with pytest.raises(WorkerError, match="orchestrator has ended"):
                SocketPairChannel(theirs.fileno()).may_join(10)

    def test_a_worker_that_has_lost_its_orchestrator_may_not_join(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            channel = SocketPairChannel(theirs.fileno())
            ours.close()
            channel.send(beat("starting"))
            with pytest.raises(WorkerError, match="orchestrator has ended"):
                channel.may_join(0)

    def test_the_worker_leaves_the_group_if_the_orchestrator_says_so(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = SocketPairChannel(theirs.fileno())
            ours.send(JOIN)
            assert channel.may_join(10)
            assert not channel.must_leave_group()
            ours.send(LEAVE)
            assert channel.must_leave_group()

    def test_the_worker_stays_in_the_group_without_an_orchestrator(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.close()
            assert not SocketPairChannel(theirs.fileno()).must_leave_group()
        assert not NoOrchestrator().must_leave_group()

    def test_both_messages_may_arrive_together(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = SocketPairChannel(theirs.fileno())
            ours.send(JOIN)
            ours.send(LEAVE)
            assert channel.may_join(10)
            assert channel.must_leave_group()

    def test_a_worker_without_an_orchestrator_joins_immediately(self) -> None:
        assert NoOrchestrator().may_join(0)
