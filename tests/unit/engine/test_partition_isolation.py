"""Workers that are killed by records: the partition is excluded, and all others are read.

An orchestrator like orchestrators/slot.py reads the heartbeats of consecutive workers.
"""

import contextlib
import itertools
import select
import socket

import pytest
from structlog.testing import capture_logs

from headwater.engine.orchestrator_channel import SocketPairChannel
from headwater.engine.partition_isolation import PAUSE_S, RETRY_AFTER_S, TURN_S
from headwater.errors import BrokerUnavailable
from headwater.model.reading_plan import READ_ALL, PartitionPosition, ReadingPlan
from headwater.model.worker_protocol import JOIN, Heartbeat
from headwater.orchestrators.oom_history import REPEATED_WITHIN_S, OomHistory
from headwater.sources.base import Positions
from tests.unit.engine.faults import Killed
from tests.unit.engine.helpers import arrived, errors, exactly_once, steps
from tests.unit.engine.world import Member, World

STEPS = 400


class Orchestrator:
    """One slot: starts a worker, reads its heartbeats, and starts the next one when it dies."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.oom_history = OomHistory()
        self.deaths = 0
        self.known_deaths = 0
        self.spec_hash = "one"
        self.last: Heartbeat | None = None
        self.member: Member | None = None
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    def run(self, steps: int = STEPS) -> None:
        for _ in range(steps):
            try:
                self._worker().worker.run_once()
            except Killed:
                self._died()
            self.read()

    def _worker(self) -> Member:
        if self.member is None:
            self._ours.close()
            self._theirs.close()
            self._ours, self._theirs = socket.socketpair()
            self._ours.setblocking(False)
            self._ours.send(JOIN)
            channel = SocketPairChannel(self._theirs.fileno(), self.oom_history.reading_plan(self.spec_hash))
            self.member = self.world.member(channel)
        return self.member

    def _died(self) -> None:
        assert self.member is not None
        self.read()
        self.deaths += 1
        now = self.world.faults.clock.now
        self.known_deaths += self.oom_history.record_kill(
            self.spec_hash, self.last.isolation if self.last else None, now
        )
        self._forget()

    def read(self) -> None:
        try:
            lines = self._ours.recv(1 << 20).splitlines()
        except BlockingIOError:
            return
        for line in lines:
            self.last = Heartbeat.model_validate_json(line)
            if self.last.isolation is not None:
                self.oom_history.on_isolation_status(self.spec_hash, self.last.isolation)

    def redeploy(self) -> None:
        self.spec_hash += "+"
        self._forget()

    def _forget(self) -> None:
        if self.member is not None:
            self.world.group.remove(self.member.source)
        self.member = self.last = None

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()

    @property
    def quarantined(self) -> list[PartitionPosition]:
        assert self.last is not None
        assert self.last.isolation is not None
        return self.last.isolation.quarantined


def orchestrated(world: World, request: pytest.FixtureRequest) -> Orchestrator:
    orchestrator = Orchestrator(world)
    request.addfinalizer(orchestrator.close)
    return orchestrator


def fill(world: World, count: int = 6) -> None:
    for partition in range(len(world.source.partitions)):
        world.append(partition, *["pass"] * count)


@exactly_once
def test_a_partition_that_kills_workers_is_excluded_and_others_are_read(
    exactly_once: bool, request: pytest.FixtureRequest
) -> None:
    world = World(exactly_once=exactly_once)
    fill(world)
    world.faults.fatal_records.add((1, 2))
    orchestrator = orchestrated(world, request)
    with capture_logs() as lines:
        orchestrator.run()
    assert orchestrator.deaths == 3, "twice with all partitions, once alone"
    assert world.group.committed == {0: 6, 1: 2, 2: 6}
    fill(world)
    orchestrator.run()
    assert world.group.committed == {0: 12, 1: 2, 2: 12}
    assert not any(each.startswith("stream/1/2/") for each in arrived(world))
    assert orchestrator.last is not None
    assert orchestrator.last.state == "ready"
    (error,) = errors(lines)
    assert error == orchestrator.last.reason
    assert error.startswith("Partition 1 of the stream is not read from offset 2 on:")
    assert orchestrator.oom_history.reading_plan("one") == ReadingPlan(quarantined=(PartitionPosition(1, 2),))


def test_the_records_before_the_fatal_one_are_delivered_when_they_are_read_before_it(
    request: pytest.FixtureRequest,
) -> None:
    world = World()
    fill(world, 100)
    world.faults.fatal_records.add((0, 50))
    orchestrator = orchestrated(world, request)
    orchestrator.run(2 * STEPS)
    (left,) = orchestrator.quarantined
    assert left.partition == 0
    assert 4 <= left.offset <= 50
    assert world.group.committed == {0: left.offset, 1: 100, 2: 100}


def test_several_partitions_are_left_out_each_by_itself(request: pytest.FixtureRequest) -> None:
    world = World()
    fill(world)
    world.faults.fatal_records |= {(0, 0), (2, 5)}
    orchestrator = orchestrated(world, request)
    orchestrator.run()
    assert [position.partition for position in orchestrator.quarantined] == [0, 2]
    assert world.group.committed[1] == 6


def test_a_worker_that_may_read_nothing_waits(request: pytest.FixtureRequest) -> None:
    world = World(partitions=1)
    fill(world)
    world.faults.fatal_records.add((0, 0))
    orchestrator = orchestrated(world, request)
    orchestrator.run()
    assert orchestrator.last is not None
    assert orchestrator.last.state == "waiting"
    assert "Partition 0 of the stream is not read" in orchestrator.last.reason


def test_rare_deaths_exclude_no_partition(request: pytest.FixtureRequest) -> None:
    world = World()
    orchestrator = orchestrated(world, request)
    for offset in range(3):
        world.append(0, "pass")
        world.faults.fatal_records = {(0, offset)}
        orchestrator.run(1)
        world.faults.fatal_records.clear()
        orchestrator.run(20)
        assert orchestrator.oom_history.reading_plan("one") == READ_ALL
        world.faults.clock.sleep(REPEATED_WITHIN_S)
    assert (orchestrator.deaths, world.group.committed[0]) == (3, 3)


def test_all_partitions_are_read_if_none_is_the_cause(request: pytest.FixtureRequest) -> None:
    world = World()
    fill(world)
    orchestrator = orchestrated(world, request)
    world.faults.fatal_records.add((0, 0))
    orchestrator.run(2)
    world.faults.fatal_records.clear()
    orchestrator.run()
    fill(world)
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.quarantined) == (2, [])
    assert orchestrator.last is not None
    assert orchestrator.last.reason == ""
    assert orchestrator.oom_history.reading_plan("one") == READ_ALL
    assert set(world.group.committed.values()) == {12}


def left_out(world: World, request: pytest.FixtureRequest) -> Orchestrator:
    """A world in which partition 1 is excluded."""
    fill(world)
    world.faults.fatal_records.add((1, 0))
    orchestrator = orchestrated(world, request)
    orchestrator.run()
    assert orchestrator.quarantined == [(1, 0)]
    assert orchestrator.deaths == 3
    return orchestrator


def test_an_excluded_partition_is_retried_alone_after_an_hour(request: pytest.FixtureRequest) -> None:
    world = World()
    orchestrator = left_out(world, request)
    world.faults.clock.sleep(RETRY_AFTER_S)
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.quarantined) == (4, [(1, 0)])
    world.faults.fatal_records.clear()
    world.faults.clock.sleep(RETRY_AFTER_S)
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.quarantined, world.group.committed[1]) == (4, [], 6)
    assert orchestrator.oom_history.reading_plan("one") == READ_ALL


def test_another_spec_retries_the_partition_alone(request: pytest.FixtureRequest) -> None:
    world = World()
    orchestrator = left_out(world, request)
    orchestrator.redeploy()
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.known_deaths, orchestrator.quarantined) == (4, 1, [(1, 0)])
    world.faults.fatal_records = {(0, 6)}
    fill(world)
    orchestrator.redeploy()
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.known_deaths, orchestrator.quarantined) == (5, 1, [(0, 6)])
    assert world.group.committed == {0: 6, 1: 12, 2: 12}


def test_reading_continues_at_a_changed_offset(request: pytest.FixtureRequest) -> None:
    world = World()
    orchestrator = left_out(world, request)
    orchestrator._forget()
    world.group.committed[1] = 3
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.quarantined, world.group.committed[1]) == (3, [], 6)


def test_deleted_records_are_passed_by_the_next_try(request: pytest.FixtureRequest) -> None:
    world = World()
    orchestrator = left_out(world, request)
    world.source.delete_records(1, 4)
    orchestrator.redeploy()
    orchestrator.run()
    assert (orchestrator.deaths, orchestrator.quarantined, world.group.committed[1]) == (3, [], 6)


def test_a_revoked_partition_is_no_longer_excluded(request: pytest.FixtureRequest) -> None:
    world = World(partitions=2)
    orchestrator = left_out(world, request)
    other = world.member()
    for _ in range(50):
        orchestrator.run(1)
        if orchestrator.member is not None and world.group.owners.get(1) is other.source:
            break
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.faults, "fatal_records", set())
            other.worker.run_once()
    mine = [p for p, owner in world.group.owners.items() if owner is not other.source]
    assert [p for p, _ in orchestrator.quarantined] == [p for p in mine if p == 1]


def test_new_partitions_of_a_rebalance_are_read_too(request: pytest.FixtureRequest) -> None:
    world = World(partitions=2)
    orchestrator = left_out(world, request)
    world.source.partitions.append([])
    world.source.ends.append(0)
    world.appended.append([])
    world.group.committed[2] = 0
    world.group.rebalance()
    world.append(2, "pass")
    orchestrator.run(20)
    assert (world.group.committed[2], orchestrator.quarantined) == (1, [(1, 0)])


def test_a_turn_lasts_until_the_store_is_back(request: pytest.FixtureRequest) -> None:
    world = World(partitions=1)
    fill(world)
    orchestrator = orchestrated(world, request)
    orchestrator.oom_history._isolates_partitions, orchestrator.oom_history._spec_hash = True, "one"
    world.faults.store_up = False
    orchestrator.run()
    assert orchestrator.last is not None
    assert orchestrator.last.isolation is not None
    assert (orchestrator.last.isolation.isolated, orchestrator.last.isolation.is_over) == ((0, 0), False)
    world.faults.store_up = True
    orchestrator.run()
    assert orchestrator.last.isolation.is_over
    assert world.group.committed == {0: 6}


def test_the_worker_waits_for_committed_offsets(request: pytest.FixtureRequest) -> None:
    world = World(partitions=1)
    fill(world)
    orchestrator = orchestrated(world, request)
    orchestrator.oom_history._isolates_partitions, orchestrator.oom_history._spec_hash = True, "one"
    source = orchestrator._worker().source

    def is_away() -> Positions:
        raise BrokerUnavailable("Kafka does not answer.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "committed", is_away)
        orchestrator.run(20)
    assert orchestrator.last is not None
    assert (orchestrator.last.state, orchestrator.last.reason) == ("waiting", "Kafka does not answer.")
    orchestrator.run()
    assert (orchestrator.last.state, world.group.committed) == ("ready", {0: 6})


def test_nothing_is_read_before_the_orchestrator_knows_the_plan() -> None:
    world = World(partitions=1)
    fill(world)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(JOIN)
        member = world.member(SocketPairChannel(theirs.fileno(), ReadingPlan(isolates_partitions=True)))
        with contextlib.suppress(BlockingIOError):
            while True:
                theirs.send(b"x", socket.MSG_DONTWAIT)
        steps(member, 20)
        assert world.total() == 0
        while select.select([ours], [], [], 0)[0]:
            ours.recv(1 << 20)
        steps(member, STEPS)
        assert world.group.committed == {0: 6}


def test_nothing_is_read_between_two_trials() -> None:
    world = World(partitions=2)
    fill(world)
    member = world.member(reading_plan=ReadingPlan(isolates_partitions=True))
    allowed: list[tuple[float, list[int]]] = []
    restrict_to = member.source.restrict_to

    def note(partitions: frozenset[int] | None) -> None:
        allowed.append((world.faults.clock.now, sorted(partitions or range(2))))
        if partitions == frozenset():
            allowed[-1] = (world.faults.clock.now, [])
        restrict_to(partitions)

    member.source.restrict_to = note  # type: ignore[assignment]
    steps(member, STEPS)
    assert [partitions for _, partitions in allowed] == [[0], [], [1], [], [0, 1]]
    lasted = [end - begin for (begin, _), (end, _) in itertools.pairwise(allowed)]
    assert all(turn >= TURN_S for turn in lasted[::2])
    assert all(quiet >= PAUSE_S for quiet in lasted[1::2])
