"""How many batches may be in flight, and the order in which transforms finish them."""

from collections.abc import Collection

import pytest

from headwater.engine import in_flight_batches
from headwater.engine.batch_sizer import BatchSizer
from headwater.engine.in_flight_batches import MAX_IN_FLIGHT, MAX_IN_FLIGHT_DURING_COMMIT, InFlightBatches
from headwater.model.record import RecordBatch, TransformResult
from headwater.transforms.base import PendingBatch

MANY = 1 << 30


class Slow:
    """A transform and its pending batch: done when a test says so."""

    uid = "slow"

    def __init__(self) -> None:
        self.is_done = False

    def start(self, batch: RecordBatch) -> PendingBatch:
        self._batch = batch
        return self

    def done(self) -> bool:
        return self.is_done

    def wait(self, timeout_s: float) -> None:
        pass

    def result(self) -> TransformResult:
        return TransformResult(self._batch)

    def close(self) -> None:
        pass


class EachWhenDone:
    """A transform whose batches are done when a test says so, each by its first offset.

    The outputs of the batches in `empty` have no records.
    """

    uid = "each"

    def __init__(self, *, empty: Collection[int] = ()) -> None:
        self.started: list[int] = []
        self.done: set[int] = set()
        self._empty = empty

    def start(self, batch: RecordBatch) -> PendingBatch:
        first_offset = batch.offsets[0]
        self.started.append(first_offset)
        pending = Slow()
        pending.start(batch.select([first_offset not in self._empty] * len(batch)))
        pending.done = lambda: first_offset in self.done  # type: ignore[method-assign]
        return pending

    def close(self) -> None:
        pass


def batch(first_offset: int, count: int = 1) -> RecordBatch:
    zeros = [0] * count
    return RecordBatch.of(
        "t", [b"value"] * count, [None] * count, zeros, zeros, [*range(first_offset, first_offset + count)], zeros
    )


def full(*, is_committing: bool) -> int:
    """Return how many batches are in flight when no further one may be read."""
    batches = InFlightBatches([])
    batches.sizer.limit = BatchSizer.MAX_RECORDS
    while batches.capacity(MANY, is_committing=is_committing):
        batches.start(batch(len(batches)), 0.0, 0.0)
    return len(batches)


class TestCapacity:
    def test_more_batches_may_be_in_flight_during_a_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (full(is_committing=False), full(is_committing=True)) == (MAX_IN_FLIGHT, MAX_IN_FLIGHT_DURING_COMMIT)
        monkeypatch.setattr(in_flight_batches, "MAX_BYTES_DURING_COMMIT", 1)
        assert full(is_committing=True) == MAX_IN_FLIGHT

    def test_records_in_flight_count(self) -> None:
        batches = InFlightBatches([])
        batches.start(batch(0, 3), 0.0, 0.0)
        assert [batches.capacity(records, is_committing=False) for records in (0, 3, 4)] == [0, 0, 1]
        assert batches.capacity(MANY, is_committing=False) == BatchSizer.MIN_RECORDS


def test_a_slow_batch_is_noticed_until_it_is_finished() -> None:
    transform = Slow()
    batches = InFlightBatches([transform])
    assert not batches.is_slower_than(0.0, 100.0)
    batches.start(batch(0), 90.0, 0.0)
    batches.advance(wait=False)
    assert (batches.is_slower_than(10.0, 99.0), batches.is_slower_than(10.0, 100.0)) == (False, True)
    transform.is_done = True
    batches.advance(wait=False)
    assert batches.is_first_finished
    assert not batches.is_slower_than(10.0, 100.0)


def test_no_batch_overtakes_an_earlier_one_after_an_empty_one() -> None:
    transforms = [EachWhenDone(empty=[1]), EachWhenDone(), EachWhenDone()]
    batches = InFlightBatches(transforms)
    for offset in range(3):
        batches.start(batch(offset), 0.0, 0.0)
    transforms[0].done = {0, 1, 2}
    batches.advance(wait=False)
    transforms[1].done = {2}
    batches.advance(wait=False)
    batches.advance(wait=False)
    assert transforms[2].started == []
    transforms[1].done = {0, 2}
    batches.advance(wait=False)
    assert transforms[2].started == [0, 2]


def test_positions_after_a_gap_follow_the_last_batch() -> None:
    batches = InFlightBatches([])
    assert not batches.set_end_positions({0: 7})
    for offset in (0, 1):
        batches.start(batch(offset), 0.0, 0.0)
    assert batches.set_end_positions({0: 7})
    assert [batches.pop_first().next_offsets() for _ in range(2)] == [{0: 1}, {0: 7}]


def test_dropped_records_are_neither_sent_nor_committed() -> None:
    batches = InFlightBatches([])
    batches.start(batch(0), 0.0, 0.0)
    batches.drop_all()
    first = batches.pop_first()
    first.exclude_dropped()
    assert (len(first.output), first.next_offsets()) == (0, {})


def test_a_batch_without_transforms_is_finished() -> None:
    batches = InFlightBatches([])
    batches.start(batch(0), 0.0, 0.0)
    assert batches.is_first_finished
