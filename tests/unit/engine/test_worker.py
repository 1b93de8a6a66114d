"""Single cases of the worker's loop; test_simulation.py combines them at random."""

import itertools
import socket

import pytest

from headwater.engine.heartbeat import HEARTBEAT_INTERVAL_S
from headwater.engine.orchestrator_channel import SocketPairChannel
from headwater.engine.status import (
    CRASH_WINDOW_S,
    KAFKA_WAIT_REPORTED_AFTER_S,
    MAX_CRASH_PAUSE_S,
    MAX_CRASHES,
    NO_PARTITIONS,
)
from headwater.engine.worker import PAUSE_AFTER_S, SLOW_TRANSFORMS, Worker
from headwater.errors import BrokerUnavailable, SandboxFailed
from headwater.model.record import RecordBatch, TransformResult
from headwater.model.worker_protocol import JOIN, LEAVE
from tests.unit.engine.helpers import arrived, states, steps
from tests.unit.engine.world import DEAD, OUTPUTS, World, without_repeats


class TestFlow:
    def test_records_reach_every_sink_and_are_committed(self) -> None:
        world = World()
        world.append(0, "pass", "drop", "twice")
        world.append(1, "bad", "pass")
        steps(world.member(), 300, until=lambda: world.group.committed == {0: 3, 1: 2, 2: 0})
        for topic in OUTPUTS:
            assert arrived(world, topic) == ["stream/0/0/0", "stream/0/2/0", "stream/0/2/1", "stream/1/1/0"]
        assert arrived(world, DEAD) == ["stream/1/0/0"]
        assert world.group.committed == {0: 3, 1: 2, 2: 0}

    def test_two_batches_are_in_flight(self) -> None:
        world = World()
        member = world.member()
        member.worker.run_once()
        world.faults.slowness = 100
        world.append(0, "pass")
        member.worker.run_once()
        world.append(0, "pass")
        member.worker.run_once()
        assert [len(t.started) for t in member.transforms] == [2, 0]

    def test_a_second_batch_never_overtakes(self) -> None:
        world = World()
        member = world.member()
        member.worker.run_once()
        for slowness in (5, 0, 3, 0):
            world.faults.slowness = slowness
            world.append(0, "pass")
            member.worker.run_once()
        steps(member, 120)
        assert arrived(world) == [f"stream/0/{n}/0" for n in range(4)]

    def test_counts_follow_the_commits(self) -> None:
        world = World()
        world.append(0, "pass", "twice", "bad", "drop")
        member = world.member()
        steps(member, 30)
        totals = member.worker.metrics.totals
        assert totals["messages_received"] == 4
        assert totals["messages_sent"] == 3 * len(OUTPUTS)
        assert totals["processor_error"] == 1
        assert member.worker.metrics.batches == 1


class TestCommit:
    def test_nothing_is_committed_before_its_acknowledgement(self) -> None:
        world = World()
        world.faults.acks_per_flush = 0
        member = world.member()
        world.append(0, "pass")
        world.faults.clock.at(1010, member.worker.stop)
        steps(member, 3)
        assert world.group.committed[0] == 0

    def test_a_long_wait_pauses_the_source_and_is_reported(self) -> None:
        world = World()
        world.faults.acks_per_flush = 0
        states: list[str] = []
        member = world.member()
        source, clock = member.source, world.faults.clock
        pause = source.pause

        def paused() -> None:
            states.append(f"paused after {clock.now - 1000:.0f} s")
            world.faults.acks_per_flush = 1 << 30
            pause()

        source.pause = paused  # type: ignore[method-assign]  # notes the call
        world.append(0, "pass")
        steps(member, 3)
        assert states == [f"paused after {PAUSE_AFTER_S:.0f} s"]
        assert world.group.committed[0] == 1
        world.append(0, "pass")
        steps(member, 130)
        assert world.group.committed[0] == 2

    def test_records_of_a_paused_source_are_an_error_because_they_would_be_lost(self) -> None:
        world = World()
        world.faults.acks_per_flush = 0
        member = world.member()
        member.source.pause = lambda: world.append(0, "pass")  # type: ignore[method-assign]  # does not pause
        world.append(0, "pass")
        with pytest.raises(AssertionError, match="a paused source has returned records"):
            steps(member, 3)

    def test_a_failed_commit_does_not_end_the_worker(self) -> None:
        world = World()
        member = world.member()
        commit = member.source.commit
        calls: list[bool] = []

        def fail_once(positions: dict[int, int], *, wait: bool) -> None:
            calls.append(wait)
            if len(calls) == 1:
                raise BrokerUnavailable("The coordinator is away.")
            commit(positions, wait=wait)

        member.source.commit = fail_once  # type: ignore[method-assign]  # fails once
        steps(member, 115)
        world.append(0, "pass")
        steps(member, 115)
        assert world.group.committed[0] == 1


class TestScripts:
    def test_a_slow_batch_neither_leaves_the_group_nor_counts_as_stuck(self) -> None:
        world = World()
        member = world.member()
        steps(member, 2)
        world.faults.slowness, world.faults.scripts_end = 1 << 30, False
        world.append(0, "pass")
        polls: list[float] = []
        poll = member.source.poll

        def counted(max_records: int, timeout_s: float) -> RecordBatch:
            polls.append(world.faults.clock.now)
            return poll(max_records, timeout_s)

        member.source.poll = counted  # type: ignore[method-assign]  # notes the call
        steps(member, 100)
        assert world.faults.clock.now - polls[-1] < 1
        assert member.worker._state() == ("waiting", SLOW_TRANSFORMS)
        before = member.worker._progress
        member.worker.run_once()
        assert member.worker._progress > before
        world.faults.scripts_end = True
        steps(member, 40)
        assert arrived(world) == ["stream/0/0/0"]
        assert member.worker._state() == ("ready", "")

    def test_records_that_crash_scripts_slow_the_worker_and_are_reported(self) -> None:
        world = World()
        member = world.member()
        steps(member, 2)
        apply = member.transforms[1].apply

        def crash(batch: RecordBatch) -> TransformResult:
            outcome = apply(batch)
            return TransformResult(outcome.output, [f._replace(error="SandboxCrash") for f in outcome.failures])

        member.transforms[1].apply = crash  # type: ignore[method-assign]  # other errors
        world.append(0, *["bad"] * (2 * MAX_CRASHES), "pass")
        before = world.faults.clock.now
        steps(member, 500, until=lambda: member.worker._state()[0] == "crashing")
        world.append(0, "pass")
        steps(member, 1000, until=lambda: len(arrived(world)) == 2)
        assert world.faults.clock.now - before >= MAX_CRASH_PAUSE_S
        assert len(arrived(world, DEAD)) == 2 * MAX_CRASHES
        world.faults.clock.sleep(CRASH_WINDOW_S)
        member.worker.run_once()
        assert member.worker._state() == ("ready", "")


class TestSetStore:
    def test_records_wait_while_the_store_is_unavailable(self) -> None:
        world = World()
        member = world.member()
        steps(member, 2)
        world.faults.store_up = False
        world.append(0, "pass", "drop")
        steps(member, 50)
        assert (world.total(), world.group.committed[0]) == (0, 0)
        world.faults.store_up = True
        steps(member, 100)
        assert arrived(world) == ["stream/0/0/0"]
        assert world.group.committed[0] == 2

    def test_delivered_records_are_committed_during_the_wait(self) -> None:
        world = World()
        member = world.member()
        steps(member, 2)
        world.append(0, "pass")
        steps(member, 1, until=lambda: bool(member.producers[-1].queue))
        world.faults.store_up = False
        world.append(0, "pass")
        steps(member, 50)
        assert world.group.committed[0] == 1


class TestRejection:
    def test_records_since_the_last_commit_are_read_again(self) -> None:
        world = World()
        member = world.member()
        steps(member, 2)
        world.append(0, "pass", "pass")
        world.faults.rejections = 1
        steps(member, 180)
        assert without_repeats(world.arrived(OUTPUTS[0])) == ["stream/0/0/0", "stream/0/1/0"]
        assert world.group.committed[0] == 2
        assert (len(member.producers), member.worker.metrics.rereads) == (2, 1)
        assert member.worker.metrics.totals["messages_received"] == 2


class TestRebalance:
    def test_a_partition_is_revoked_after_delivery_and_commit(self) -> None:
        world = World()
        first = world.member()
        steps(first, 1)
        for partition in range(3):
            world.append(partition, *["pass"] * 5)
            steps(first, 1)
        second = world.member()
        for _ in range(30):
            first.worker.run_once()
            second.worker.run_once()
        assert world.group.committed == {0: 5, 1: 5, 2: 5}
        assert sorted(arrived(world)) == sorted(f"stream/{p}/{n}/0" for p in range(3) for n in range(5))

    def test_a_commit_that_fails_during_a_revocation_is_repeated(self) -> None:
        world = World()
        first = world.member()
        steps(first, 1)
        world.append(2, "pass")
        first.worker.run_once()
        world.faults.commits_to_fail = 3
        second = world.member()
        first.worker.run_once()
        assert world.group.committed[2] == 1
        steps(second, 5)
        assert arrived(world) == ["stream/2/0/0"]

    def test_unfinished_records_are_left_to_the_next_owner(self) -> None:
        world = World()
        first = world.member()
        steps(first, 1)
        world.faults.store_up = False
        world.append(2, "pass")
        steps(first, 2)
        second = world.member()
        steps(first, 5)
        world.faults.store_up = True
        for _ in range(100):
            second.worker.run_once()
            first.worker.run_once()
        assert arrived(world) == ["stream/2/0/0"]
        assert world.group.owners[2] is second.source
        assert world.group.committed[2] == 1

    def test_lost_partitions_are_not_committed(self) -> None:
        world = World()
        first = world.member()
        steps(first, 1)
        world.faults.slowness = 3
        world.append(0, "pass")
        steps(first, 1)
        world.group.remove(first.source)
        second = world.member()
        steps(first, 10)
        steps(second, 130)
        assert world.group.owners[0] is second.source
        assert world.group.committed[0] == 1
        assert without_repeats(world.arrived(OUTPUTS[0])) == ["stream/0/0/0"]


class TestStop:
    def test_records_that_were_read_are_finished(self) -> None:
        world = World()
        member = world.member()
        member.worker.run_once()
        world.faults.slowness = 4
        world.append(0, "pass", "twice")
        member.worker.run_once()
        member.worker.stop()
        assert member.worker.finish()
        assert world.group.committed[0] == 2
        member.worker.close()
        assert all(t.closed for t in member.transforms)

    def test_unfinished_records_are_not_committed(self) -> None:
        world = World()
        member = world.member()
        member.worker.run_once()
        world.faults.store_up = False
        world.append(0, "pass")
        steps(member, 2)
        member.worker.stop()
        assert not member.worker.finish()
        assert world.group.committed[0] == 0

    @pytest.mark.parametrize("for_good", [True, False])
    def test_a_worker_without_successor_leaves_the_group(self, for_good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        left = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.send(JOIN)
            member = World().member(SocketPairChannel(theirs.fileno()))
            monkeypatch.setattr(member.source, "close", lambda *, leave_group: left.append(leave_group))
            if for_good:
                ours.send(LEAVE)
            member.worker.close()
        assert left == [for_good]

    def test_run_ends_by_stop(self) -> None:
        world = World()
        world.append(0, *["pass"] * 10)
        member = world.member(start=False)
        world.faults.clock.at(1003, member.worker.stop)
        assert member.worker.run()
        assert world.group.committed[0] == 10


class TestErrors:
    def test_a_sandbox_that_cannot_start_ends_the_worker(self) -> None:
        world = World()
        world.append(0, "pass")
        member = world.member(start=False)

        def fail(batch: RecordBatch) -> TransformResult:
            raise SandboxFailed("The V8 child can't be started.")

        member.transforms[1].apply = fail  # type: ignore[method-assign]  # breaks the transform
        with pytest.raises(SandboxFailed):
            member.worker.run()
        assert world.group.committed[0] == 0

    def test_the_worker_waits_while_the_broker_rejects_it(self) -> None:
        world = World()
        world.append(0, "pass")
        member = world.member()
        poll, failures = member.source.poll, iter([True, True])

        def fail_twice(max_records: int, timeout_s: float) -> RecordBatch:
            if next(failures, False):
                raise BrokerUnavailable("Kafka rejects the user.")
            return poll(max_records, timeout_s)

        member.source.poll = fail_twice  # type: ignore[method-assign]  # fails twice
        steps(member, 80)
        assert world.group.committed[0] == 1


class TestHealth:
    def test_a_worker_without_partitions_is_not_ready(self) -> None:
        world = World()

        def act(worker: Worker) -> None:
            worker.run_once()
            worker.on_lost([0, 1, 2])
            worker.run_once()
            worker.on_assigned([0])
            worker.run_once()

        assert states(world, act) == [("starting", ""), ("ready", ""), ("waiting", NO_PARTITIONS)]

    def test_the_worker_waits_for_an_assignment(self) -> None:
        world = World()

        def act(worker: Worker) -> None:
            worker._source.poll = lambda *_: RecordBatch.empty("stream")  # type: ignore[method-assign]
            world.faults.clock.sleep(KAFKA_WAIT_REPORTED_AFTER_S)
            worker.run_once()

        assert states(world, act) == [("starting", ""), ("waiting", NO_PARTITIONS)]

    def test_waiting_for_kafka_at_the_start_is_reported(self) -> None:
        world = World()
        clock, beats = world.faults.clock, list[tuple[float, str, str]]()
        answers = iter([False, False])

        def act(worker: Worker) -> None:
            def connect(_: float) -> None:
                if not next(answers, True):
                    raise BrokerUnavailable("Kafka does not answer.")

            report = worker._reporter.report

            def note(state: str, reason: str = "", **figures: object) -> bool:
                beats.append((clock(), state, reason))
                return report(state, reason, **figures)

            worker._reporter.report = note  # type: ignore[method-assign]
            worker._retry_until_connected(connect)
            worker._report()

        states(world, act)
        waits = [at for at, state, _ in beats if state == "waiting"]
        assert {reason for _, state, reason in beats if state == "waiting"} == {"Kafka does not answer."}
        assert max(b - a for a, b in itertools.pairwise(waits)) <= 2 * HEARTBEAT_INTERVAL_S
        assert beats[-1][1] != "waiting"

    def test_from_start_to_end(self) -> None:
        world = World()

        def act(worker: Worker) -> None:
            worker.run_once()
            world.faults.store_up = False
            world.append(0, "pass")
            for _ in range(5):
                worker.run_once()
            world.faults.store_up = True
            for _ in range(20):
                worker.run_once()
            worker.stop()
            worker.finish()

        assert states(world, act) == [
            ("starting", ""),
            ("ready", ""),
            ("waiting", "Valkey or Redis does not answer."),
            ("draining", ""),
        ]
