"""Outcomes of redriven letters are stored before their positions are committed."""

from typing import Any

import pytest

from headwater.engine.delivery import Backpressure
from headwater.engine.in_flight_batch import FailedRecord, InFlightBatch
from headwater.engine.redrive import DeadLetterTotalsStore, RedriveDelivery, outcomes_of
from headwater.errors import RedisUnavailable
from headwater.model.dead_letter import LetterId
from headwater.model.metric import TIME_RANGES, Histogram, MetricsDelta, PartitionCounts
from headwater.model.record import Failure, RecordBatch
from headwater.model.redrive import LetterOutcome, LetterRange, RedriveCounts, RedriveSelection, RedriveSpec
from headwater.sources.base import Positions
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.redrives import MemoryRedriveOutcomes

REDRIVE = RedriveSpec(id="r", number=7, selection=RedriveSelection(ranges={0: LetterRange(0, 9)}))


def batch(*offsets: int) -> RecordBatch:
    rows = [(b"v", b"k", 0, 0, offset, 0) for offset in offsets]
    return RecordBatch.of("dlq", *(list(column) for column in zip(*rows, strict=True)))


def in_flight(*, failed: int, delivered: int, dropped: int) -> InFlightBatch:
    processed = InFlightBatch(batch(failed, delivered, dropped), [], 0.0)
    processed.output = batch(delivered)
    processed.failed_records = [FailedRecord(0, failed, 0, Failure(0, "TypeError", "x", "t"))]
    return processed


class Inner:
    """A delivery that records its commits."""

    commit_interval_s = 0.2

    def __init__(self) -> None:
        self.commits: list[Positions] = []
        self.pending: Any = None
        self.recover_result = True
        names = ("connect", "start", "outstanding", "take_reread_reasons", "flush", "close", "remove_partitions")
        for name in names:
            setattr(self, name, lambda *_: None)

    def backpressure(self) -> Backpressure:
        return Backpressure(5)

    def deliver(self, processed: InFlightBatch) -> tuple[int, list[Failure]]:
        return len(processed.output), []

    def commit(self, positions: Positions) -> Any:
        self.commits.append(positions)
        return self.pending

    def recover(self) -> bool:
        return self.recover_result


class Source:
    """A source that records what the delivery asks of it."""

    is_throttled = False

    def __init__(self) -> None:
        self.commits: list[Positions] = []
        self.forgotten: list[Positions] = []
        self.first_of: dict[LetterId, LetterId] = {}

    def repeats(self, positions: Positions) -> dict[LetterId, LetterId]:
        return {each: first for each, first in self.first_of.items() if each.offset < positions.get(each.partition, 0)}

    def commit(self, positions: Positions, *, wait: bool) -> None:
        assert not wait
        self.commits.append(positions)

    def forget(self, positions: Positions) -> None:
        self.forgotten.append(positions)


class Scene:
    """A delivery of a redrive."""

    def __init__(self, *, in_transaction: bool = False) -> None:
        self.inner, self.source, self.store = Inner(), Source(), MemoryRedriveOutcomes()
        inner: Any = self.inner
        self.delivery = RedriveDelivery(
            inner,
            self.source,
            self.store,
            deployment_id="d",
            redrive=REDRIVE,
            in_transaction=in_transaction,
            epoch_s=lambda: 12.5,
        )

    def deliver(self) -> None:
        self.delivery.deliver(in_flight(failed=3, delivered=4, dropped=5))

    @property
    def counts(self) -> RedriveCounts:
        return self.store.progress("d", 7).counts


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_outcomes() -> None:
    processed = in_flight(failed=3, delivered=4, dropped=5)
    assert outcomes_of(processed) == {
        LetterId(0, 3): "failed",
        LetterId(0, 4): "delivered",
        LetterId(0, 5): "dropped",
    }


def test_a_letter_with_an_output_and_a_failure_has_failed() -> None:
    processed = in_flight(failed=3, delivered=3, dropped=5)
    assert outcomes_of(processed)[LetterId(0, 3)] == "failed"


def test_a_commit_stores_the_outcomes_first(scene: Scene) -> None:
    scene.deliver()
    assert scene.counts == RedriveCounts()
    assert scene.delivery.commit({0: 6}) is None
    assert scene.counts == RedriveCounts(1, 1, 1)
    assert scene.store.outcomes("d", [LetterId(0, 3)])[LetterId(0, 3)].time_s == 12
    assert (scene.inner.commits, scene.source.forgotten) == ([{0: 6}], [{0: 6}])


def test_outcomes_that_are_stored_before_their_transaction() -> None:
    scene = Scene(in_transaction=True)
    scene.deliver()
    scene.delivery.commit({0: 6})
    assert scene.store.outcomes("d", [LetterId(0, 4)])[LetterId(0, 4)] == LetterOutcome("delivered", 12, 7, True)


def test_repeats_get_the_outcome_of_the_letter_that_was_processed(scene: Scene) -> None:
    scene.source.first_of = {LetterId(0, 6): LetterId(0, 3), LetterId(0, 7): LetterId(0, 4)}
    scene.deliver()
    scene.delivery.commit({0: 7})
    assert scene.counts == RedriveCounts(delivered=1, dropped=1, failed=2)
    scene.delivery.commit({0: 8})
    assert scene.counts == RedriveCounts(delivered=2, dropped=1, failed=2)


def test_positions_of_letters_that_are_not_selected(scene: Scene) -> None:
    scene.delivery.commit({0: 6})
    assert scene.inner.commits == [{0: 6}]


def test_a_store_that_is_away(scene: Scene) -> None:
    scene.deliver()
    scene.store.away = True
    with pytest.raises(RedisUnavailable):
        scene.delivery.commit({0: 6})
    assert scene.inner.commits == []
    with pytest.raises(RedisUnavailable):
        scene.delivery.commit({})
    scene.store.away = False
    scene.delivery.commit({})
    assert (scene.inner.commits, scene.source.commits) == ([{0: 6}], [{0: 6}])
    assert scene.counts == RedriveCounts(1, 1, 1)


def test_a_transaction_contains_positions_of_a_failed_commit(scene: Scene) -> None:
    scene.inner.pending = object()
    scene.store.away = True
    with pytest.raises(RedisUnavailable):
        scene.delivery.commit({0: 6, 1: 2})
    scene.store.away = False
    assert scene.delivery.commit({0: 8}) is scene.inner.pending
    assert (scene.inner.commits, scene.source.commits) == ([{0: 8, 1: 2}], [])


def test_a_recovery_discards_outcomes(scene: Scene) -> None:
    scene.deliver()
    assert scene.delivery.recover()
    scene.delivery.commit({0: 1})
    assert scene.counts == RedriveCounts()


@pytest.mark.parametrize("uses_transactions", [False, True])
def test_a_recovery_keeps_only_outcomes_whose_outputs_are_acknowledged(scene: Scene, uses_transactions: bool) -> None:
    scene.inner.recover_result = uses_transactions
    scene.deliver()
    scene.store.away = True
    with pytest.raises(RedisUnavailable):
        scene.delivery.commit({0: 6})
    scene.delivery.deliver(in_flight(failed=6, delivered=7, dropped=8))
    assert scene.delivery.recover() is uses_transactions
    scene.store.away = False
    scene.delivery.commit({})
    assert scene.inner.commits == [{} if uses_transactions else {0: 6}]
    assert scene.counts == (RedriveCounts() if uses_transactions else RedriveCounts(1, 1, 1))


def test_lost_partitions(scene: Scene) -> None:
    scene.deliver()
    scene.delivery.remove_partitions([0])
    scene.delivery.commit({1: 1})
    assert scene.counts == RedriveCounts()


def test_throttling(scene: Scene) -> None:
    scene.store.set_throttled("d", 7, is_throttled=True)
    scene.delivery.commit({0: 1})
    assert scene.source.is_throttled
    scene.store.set_throttled("d", 7, is_throttled=False)
    scene.delivery.commit({0: 2})
    assert not scene.source.is_throttled


def test_nothing_to_commit(scene: Scene) -> None:
    scene.store.away = True
    assert scene.delivery.commit({}) is None
    assert scene.delivery.backpressure() == Backpressure(5)


def test_a_redrive_counts_only_new_letters() -> None:
    metrics = MemoryMetrics()
    times = Histogram()
    times.add(5)
    counts = PartitionCounts(3, {"messages_received": 2}, {"transform/t/sent": 1}, {"letters/x": 1})
    delta = MetricsDelta(60, {0: counts}, {"total_latency": times}, {"transform/t/processing_latency": times})
    DeadLetterTotalsStore(metrics).write("d", "g", "w", delta)
    assert metrics.letter_totals("d")["letters/x"].count == 1
    (interval,) = metrics.read("d", TIME_RANGES[0], 60).values()
    assert not interval.counts
    assert not interval.transform_counts
    assert not interval.times
