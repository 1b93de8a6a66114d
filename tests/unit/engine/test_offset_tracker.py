"""The offsets of positions."""

from headwater.engine.offset_tracker import OffsetTracker
from headwater.model.record import RecordBatch


def batch(partition: int, *offsets: int) -> RecordBatch:
    n = len(offsets)
    return RecordBatch.of("t", [None] * n, [None] * n, [0] * n, [partition] * n, [*offsets], [0] * n)


def test_reading_again_starts_at_the_first_record_until_something_is_acknowledged() -> None:
    offsets = OffsetTracker()
    offsets.read(batch(0, 10, 11))
    offsets.read(batch(0, 12))
    offsets.delivered({0: 12})
    assert offsets.rewind({}) == {0: 10}
    offsets.delivered({0: 12})
    assert offsets.pending == {0: 12}
    offsets.acknowledge({0: 12})
    offsets.delivered({0: 13})
    assert offsets.rewind({}) == {0: 12}
    assert not offsets.pending


def test_acknowledged_positions_are_given_once() -> None:
    offsets = OffsetTracker()
    offsets.delivered({0: 3})
    assert offsets.pending == {0: 3}
    offsets.acknowledge({0: 3})
    assert offsets.pending == {}


def test_what_was_delivered_beside_a_commit_is_pending() -> None:
    offsets = OffsetTracker()
    offsets.delivered({0: 3, 1: 4})
    committing = offsets.pending
    offsets.delivered({0: 5})
    offsets.acknowledge(committing)
    assert offsets.pending == {0: 5}
    assert offsets.rewind({}) == {0: 3, 1: 4}


def test_positions_that_moved_unnoticed_are_where_reading_goes_on() -> None:
    offsets = OffsetTracker()
    offsets.read(batch(0, 10, 11))
    offsets.read(batch(1, 5))
    offsets.delivered({0: 12})
    assert offsets.rewind({0: 12, 2: 8}) == {0: 12, 1: 5}
    assert offsets.rewind({}) == {0: 12, 1: 5}


def test_a_dropped_partition_begins_anew() -> None:
    offsets = OffsetTracker()
    offsets.read(batch(0, 10))
    offsets.delivered({0: 11, 1: 4})
    offsets.drop([0])
    assert offsets.pending == {1: 4}
    offsets.acknowledge({0: 11, 1: 4})
    offsets.read(batch(0, 7))
    assert offsets.rewind({}) == {0: 7, 1: 4}
