"""The worker with gaps in its source, unreadable partitions, and a recreated topic."""

import pytest
from structlog.testing import capture_logs

from headwater.engine.status import GAP_REPORTED_FOR_S
from headwater.engine.worker import Worker
from headwater.errors import NoValidOffset
from headwater.sources.base import Gap
from tests.unit.engine.faults import Killed
from tests.unit.engine.helpers import arrived, errors, exactly_once, states, steps
from tests.unit.engine.world import World


class TestGap:
    @exactly_once
    def test_a_gap_is_reported_and_skipped(self, exactly_once: bool) -> None:
        world = World(exactly_once=exactly_once)
        world.append(0, "pass", "pass", "pass")
        world.source.delete_records(0, 2)
        member = world.member()
        with capture_logs() as lines:
            steps(member, 30)
        assert arrived(world) == ["stream/0/2/0"]
        assert world.group.committed[0] == 3
        assert errors(lines) == [str(Gap("stream", 0, 0, 2))]

    @exactly_once
    def test_the_end_of_a_gap_is_committed_without_further_records(self, exactly_once: bool) -> None:
        world = World(exactly_once=exactly_once)
        world.append(0, "pass", "pass")
        world.source.delete_records(0, 2)
        steps(world.member(), 30)
        assert world.group.committed[0] == 2

    @exactly_once
    def test_a_gap_is_committed_after_the_records_before_it(self, exactly_once: bool) -> None:
        world = World(exactly_once=exactly_once)
        world.append(0, "pass")
        world.faults.slowness, world.faults.scripts_end = 1 << 30, False
        member = world.member()
        steps(member, 5)
        world.append(0, "pass")
        world.source.delete_records(0, 2)
        steps(member, 30)
        assert world.group.committed[0] == 0
        world.faults.slowness, world.faults.scripts_end = 0, True
        steps(member, 60)
        assert arrived(world) == ["stream/0/0/0"]
        assert world.group.committed[0] == 2

    def test_a_gap_is_reported_again_after_a_kill_before_the_commit(self) -> None:
        world = World()
        world.append(0, "pass")
        world.source.delete_records(0, 1)
        world.faults.killed_at_commit = True
        member = world.member()
        with capture_logs() as lines:
            with pytest.raises(Killed):
                steps(member, 30)
            world.group.remove(member.source)
            steps(world.member(), 30)
        assert errors(lines) == [str(Gap("stream", 0, 0, 1))] * 2
        assert world.group.committed[0] == 1

    def test_a_rejected_delivery_rereads_records_before_the_gap(self) -> None:
        world = World()
        world.append(0, "pass", "pass")
        world.source.delete_records(0, 1)
        world.faults.rejections = 1
        with capture_logs() as lines:
            steps(world.member(), 200)
        assert errors(lines) == [str(Gap("stream", 0, 0, 1))] * 2
        assert arrived(world) == ["stream/0/1/0"]
        assert world.group.committed[0] == 2

    def test_a_gap_is_shown_for_a_while_beside_other_reasons(self) -> None:
        world = World()
        world.append(0, "pass")
        world.source.delete_records(0, 1)

        def act(worker: Worker) -> None:
            worker.run_once()
            world.faults.store_up = False
            world.append(0, "pass")
            for _ in range(5):
                worker.run_once()
            world.faults.store_up = True
            world.faults.clock.sleep(GAP_REPORTED_FOR_S)
            for _ in range(20):
                worker.run_once()

        gap = str(Gap("stream", 0, 0, 1))
        assert states(world, act) == [
            ("starting", ""),
            ("ready", gap),
            ("waiting", f"Valkey or Redis does not answer. {gap}"),
            ("ready", ""),
        ]


class TestUnread:
    def test_other_partitions_continue_and_the_error_is_reported(self) -> None:
        world = World()

        def act(worker: Worker) -> None:
            world.append(0, "pass")
            world.append(1, "pass")
            world.source.unreadable[0] = "Partition 0 is damaged."
            for _ in range(20):
                worker.run_once()
            assert arrived(world) == ["stream/1/0/0"]
            world.source.unreadable.clear()
            for _ in range(20):
                worker.run_once()

        with capture_logs() as lines:
            reported = states(world, act)
        assert reported == [("starting", ""), ("ready", "Partition 0 is damaged."), ("ready", "")]
        assert [line["reasons"] for line in lines if "reasons" in line] == [["Partition 0 is damaged."]]
        assert sorted(arrived(world)) == ["stream/0/0/0", "stream/1/0/0"]

    def test_no_partition_can_be_read(self) -> None:
        world = World(partitions=1)
        world.append(0, "pass")
        world.source.unreadable[0] = "Partition 0 is damaged."
        member = world.member()
        steps(member, 20)
        world.source.unreadable.clear()
        steps(member, 2000, lambda: bool(arrived(world)))
        assert arrived(world) == ["stream/0/0/0"]

    def test_a_worker_none_of_whose_partitions_can_be_read_is_not_ready(self) -> None:
        world = World()
        away = "Kafka at example:9092 does not answer."

        def act(worker: Worker) -> None:
            worker.run_once()
            worker._source.unreadable = lambda: dict.fromkeys(range(3), away)  # type: ignore[method-assign]
            worker.run_once()

        assert states(world, act)[1:] == [("ready", ""), ("waiting", away)]


class TestPosition:
    @pytest.mark.parametrize("why", ["no position", "created again"])
    def test_a_worker_that_does_not_know_where_to_start_ends(self, why: str) -> None:
        world = World()
        world.append(0, "pass")
        world.group.committed.clear()
        if why == "created again":
            world.group.commit({0: 0}, world.source.id)
            world.source.recreate()
        committed = dict(world.group.committed)
        member = world.member(start=False)
        with pytest.raises(NoValidOffset, match=why):
            member.worker.run()
        assert world.group.committed == committed
        assert all(t.closed for t in member.transforms)

    @exactly_once
    def test_a_recreated_topic_ends_the_worker(self, exactly_once: bool) -> None:
        world = World(exactly_once=exactly_once)
        world.append(0, "pass")
        member = world.member()
        steps(member, 30)
        world.group.recreate_topic()
        world.append(0, "pass", "pass")
        with pytest.raises(NoValidOffset, match="created again"):
            steps(member, 30)
        assert arrived(world) == ["stream/0/0/0"]
        assert not world.group.committed
