"""Workers with exactly-once delivery."""

from collections.abc import Callable
from threading import Event

import pytest

from headwater.engine import watchdog
from headwater.engine.exactly_once import TransactionSizer
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.orchestrator_channel import NoOrchestrator
from headwater.engine.watchdog import Watchdog
from headwater.errors import BrokerUnavailable
from headwater.model.metric import TIME_RANGES
from headwater.model.record import RecordBatch
from tests.unit.engine.faults import FaultyTransactionalProducer
from tests.unit.engine.helpers import arrived, steps
from tests.unit.engine.world import DEAD, DEPLOYMENT, OUTPUTS, Member, World, origin


@pytest.fixture
def world() -> World:
    return World(exactly_once=True)


def working(world: World) -> Member:
    """A worker that owns all partitions."""
    member = world.member()
    steps(member, 2)
    return member


def _hang(noticed: Event) -> None:
    """Raise an error like librdkafka, without ending the process."""
    assert noticed.wait(60)
    raise RuntimeError("the process has ended")


class TestFlow:
    def test_results_dead_letters_and_offsets_are_committed_together(self, world: World) -> None:
        member = working(world)
        world.faults.slowness = 1
        world.append(0, "pass", "drop", "twice", "bad")
        seen: set[tuple[int, int, int]] = set()
        for _ in range(30):
            member.worker.run_once()
            seen.add((len(arrived(world)), len(arrived(world, DEAD)), world.group.committed[0]))
        assert seen == {(0, 0, 0), (3, 1, 4)}
        assert arrived(world, OUTPUTS[1]) == arrived(world) == ["stream/0/0/0", "stream/0/2/0", "stream/0/2/1"]

    def test_a_single_record_is_committed_without_delay(self, world: World) -> None:
        member = working(world)
        steps(member, 20)
        before = world.faults.clock.now
        world.append(0, "pass")
        member.worker.run_once()
        assert world.total() == len(OUTPUTS)
        assert world.faults.clock.now == before

    def test_positions_move_without_results_too(self, world: World) -> None:
        member = working(world)
        world.append(0, "drop", "drop")
        steps(member, 20)
        assert world.group.committed[0] == 2

    def test_records_that_were_read_are_finished_at_a_stop(self, world: World) -> None:
        member = working(world)
        world.faults.slowness = 4
        world.append(0, "pass", "twice")
        member.worker.run_once()
        member.worker.stop()
        assert member.worker.finish()
        assert world.group.committed[0] == 2
        assert len(arrived(world)) == 3

    def test_the_last_transaction_is_timed_too(self, world: World) -> None:
        member = working(world)
        world.append(0, "pass", "twice")
        member.worker.run_once()
        member.worker.stop()
        assert member.worker.finish()
        (interval,) = world.metrics.read(DEPLOYMENT, TIME_RANGES[0], world.faults.clock.now).values()
        assert [interval.times[name].total() for name in ("total_latency", "data_age")] == [3, 3]


class TestFailures:
    def test_a_failed_transaction_is_repeated(self, world: World) -> None:
        member = working(world)
        world.append(0, "pass", "pass")
        world.faults.rejections = 1
        steps(member, 80)
        assert arrived(world) == ["stream/0/0/0", "stream/0/1/0"]
        assert world.group.committed[0] == 2
        assert (len(member.producers), member.worker.metrics.rereads) == (2, 1)
        assert member.worker.metrics.totals["messages_received"] == 2

    def test_a_committed_transaction_without_a_response_is_not_repeated(self, world: World) -> None:
        member = working(world)
        world.append(0, "pass", "pass")
        world.faults.lost_responses = 1
        steps(member, 80)
        world.append(0, "pass")
        steps(member, 80)
        assert arrived(world) == ["stream/0/0/0", "stream/0/1/0", "stream/0/2/0"]
        assert world.group.committed[0] == 3

    def test_the_coordinator_is_waited_for(self, world: World) -> None:
        member = working(world)
        world.append(0, "pass")
        world.faults.rejections, world.faults.coordinator_up = 1, False
        steps(member, 300)
        assert world.total() == 0
        world.faults.coordinator_up = True
        steps(member, 300)
        assert arrived(world) == ["stream/0/0/0"]

    @pytest.mark.parametrize("what", ["commit", "init_transactions", "close"])
    def test_a_hanging_client_is_detected(self, what: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watchdog, "CHECK_INTERVAL_S", 0.1)
        hangs = Event()
        world.watching = Watchdog(2, hangs.set).watching
        member = working(world)
        monkeypatch.setattr(FaultyTransactionalProducer, what, lambda *_: _hang(hangs))
        world.append(0, "pass")
        world.faults.rejections = 1
        with pytest.raises(RuntimeError, match="ended"):
            steps(member, 80)

    def test_a_failed_transaction_at_a_stop_is_repeated(self, world: World) -> None:
        member = working(world)
        world.faults.rejections, world.faults.slowness = 1, 4
        world.append(0, "pass")
        member.worker.run_once()
        member.worker.stop()
        assert not member.worker.finish()
        assert world.group.committed[0] == 0


class TestOwnership:
    def test_lost_partitions_are_not_written(self, world: World) -> None:
        first = working(world)
        world.append(0, "pass")
        world.append(2, "pass")
        first.worker._committer._due_at = world.faults.clock.now + 10
        steps(first, 5)
        world.group.remove(first.source)
        second = world.member(slot=1)
        for _ in range(40):
            second.worker.run_once()
            first.worker.run_once()
        for partition in range(3):
            world.append(partition, "pass")
        world.faults.clock.sleep(10)
        for _ in range(40):
            first.worker.run_once()
            second.worker.run_once()
        assert sorted(arrived(world)) == [f"stream/{n}/0" for n in ("0/0", "0/1", "1/0", "2/0", "2/1")]

    def test_a_fenced_worker_writes_nothing_more(self, world: World) -> None:
        zombie = working(world)
        world.append(0, "pass")
        zombie.worker._committer._due_at = world.faults.clock.now + 1
        steps(zombie, 5)
        world.group.remove(zombie.source)
        successor = world.member()
        world.faults.clock.sleep(2)
        zombie.worker._commit()
        assert world.total() == 0
        steps(successor, 30)
        assert arrived(world) == ["stream/0/0/0"]

    def test_transactions_are_initialised_when_the_worker_may_join(self, world: World) -> None:
        asked: list[int] = []

        class Gate(NoOrchestrator):
            def may_join(self, timeout_s: float) -> bool:
                asked.append(world.topics.epochs["slot-0"])
                return len(asked) > 3

        world.member(Gate())
        assert asked == [0] * 4
        assert world.topics.epochs["slot-0"] == 1

    def test_the_worker_waits_for_the_transaction_coordinator(self, world: World) -> None:
        world.faults.coordinator_up = False

        def back() -> None:
            world.faults.coordinator_up = True

        world.faults.clock.at(1010, back)
        world.append(0, "pass")
        member = world.member()
        steps(member, 30)
        assert arrived(world) == ["stream/0/0/0"]


class TestTransactionSize:
    def test_slow_transactions_get_smaller(self, world: World) -> None:
        member = working(world)
        world.faults.transaction_s = 4.0
        world.append(0, *["pass"] * 1000)
        steps(member, 10)
        assert member.worker._delivery.backpressure().capacity < 1000
        world.faults.transaction_s = 0.0
        steps(member, 300, until=lambda: world.group.committed[0] == 1000)
        assert [origin(r) for r in world.arrived(OUTPUTS[0])] == [f"stream/0/{n}/0" for n in range(1000)]

    def test_large_values_are_committed_sooner(self, world: World) -> None:
        member = working(world)
        world.append(0, "pass")
        steps(member, 5, until=lambda: world.group.committed[0] == 1)
        delivery = member.worker._delivery
        columns = [[0] * 70, [0] * 70, [*range(70)], [0] * 70]
        delivery.deliver(InFlightBatch(RecordBatch.of("t", [bytes(1_000_000)] * 70, [None] * 70, *columns), [], 0.0))
        assert delivery.backpressure().capacity == 0
        delivery.remove_partitions([0])
        assert delivery.backpressure().capacity == TransactionSizer.MAX_RECORDS

    @pytest.mark.parametrize(
        ("learn", "limit"),
        [
            (lambda size: size.update(10_000, 0.1), TransactionSizer.MAX_RECORDS),
            (lambda size: size.update(10_000, 4.0), 2_500),
            (lambda size: size.reduce(8_000), 2_000),
            (lambda size: size.reduce(160_000), TransactionSizer.MAX_RECORDS // 2),
            (lambda size: size.reduce(0), 1),
            (lambda size: (size.update(100, 10.0), size.update(10, 0.5)), 20),
        ],
    )
    def test_rule(self, learn: Callable[[TransactionSizer], object], limit: int) -> None:
        size = TransactionSizer()
        learn(size)
        assert size.limit == limit


def test_reading_committed_offsets_is_retried(world: World) -> None:
    member = working(world)
    committed, failures = member.source.committed, iter([True, True])

    def fail_twice() -> dict[int, int]:
        if next(failures, False):
            raise BrokerUnavailable("A transaction is still open.")
        return committed()

    member.source.committed = fail_twice  # type: ignore[method-assign]  # fails twice
    world.append(0, "pass")
    world.faults.rejections = 1
    steps(member, 100)
    assert arrived(world) == ["stream/0/0/0"]
