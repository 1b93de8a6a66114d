"""The tracking of offsets."""

from headwater.engine.offset_tracker import OffsetTracker
from headwater.model.record import RecordBatch


def batch(partition: int, *offsets: int) -> RecordBatch:
    n = len(offsets)
    return RecordBatch.of("t", [None] * n, [None] * n, [0] * n, [partition] * n, [*offsets], [0] * n)


def test_rereading_starts_at_the_first_record_until_an_acknowledgement() -> None:
    offsets = OffsetTracker()
    offsets.on_read(batch(0, 10, 11))
    offsets.on_read(batch(0, 12))
    offsets.on_produced({0: 12})
    assert offsets.reread({}) == {0: 10}
    offsets.on_produced({0: 12})
    assert offsets.pending == {0: 12}
    offsets.on_commit_ended({0: 12})
    offsets.on_produced({0: 13})
    assert offsets.reread({}) == {0: 12}
    assert not offsets.pending


def test_acknowledged_offsets_are_returned_once() -> None:
    offsets = OffsetTracker()
    offsets.on_produced({0: 3})
    assert offsets.pending == {0: 3}
    offsets.on_commit_ended({0: 3})
    assert offsets.pending == {}


def test_records_delivered_during_a_commit_are_pending() -> None:
    offsets = OffsetTracker()
    offsets.on_produced({0: 3, 1: 4})
    committing = offsets.pending
    offsets.on_produced({0: 5})
    offsets.on_commit_ended(committing)
    assert offsets.pending == {0: 5}
    assert offsets.reread({}) == {0: 3, 1: 4}


def test_reading_continues_at_externally_changed_offsets() -> None:
    offsets = OffsetTracker()
    offsets.on_read(batch(0, 10, 11))
    offsets.on_read(batch(1, 5))
    offsets.on_produced({0: 12})
    assert offsets.reread({0: 12, 2: 8}) == {0: 12, 1: 5}
    assert offsets.reread({}) == {0: 12, 1: 5}


def test_a_dropped_partition_begins_anew() -> None:
    offsets = OffsetTracker()
    offsets.on_read(batch(0, 10))
    offsets.on_produced({0: 11, 1: 4})
    offsets.remove_partitions([0])
    assert offsets.pending == {1: 4}
    offsets.on_commit_ended({0: 11, 1: 4})
    offsets.on_read(batch(0, 7))
    assert offsets.reread({}) == {0: 7, 1: 4}
