"""The ledger of positions."""

from headwater.engine.positions import Ledger
from headwater.model.record import RecordBatch


def batch(partition: int, *offsets: int) -> RecordBatch:
    n = len(offsets)
    return RecordBatch.of("t", [None] * n, [None] * n, [0] * n, [partition] * n, [*offsets], [0] * n)


def test_reading_again_starts_at_the_first_record_until_something_is_acknowledged() -> None:
    ledger = Ledger()
    ledger.read(batch(0, 10, 11))
    ledger.read(batch(0, 12))
    ledger.delivered({0: 12})
    assert ledger.rewind({}) == {0: 10}
    ledger.delivered({0: 12})
    assert ledger.pending == {0: 12}
    ledger.acknowledge({0: 12})
    ledger.delivered({0: 13})
    assert ledger.rewind({}) == {0: 12}
    assert not ledger.pending


def test_acknowledged_positions_are_given_once() -> None:
    ledger = Ledger()
    ledger.delivered({0: 3})
    assert ledger.pending == {0: 3}
    ledger.acknowledge({0: 3})
    assert ledger.pending == {}


def test_what_was_delivered_beside_a_commit_is_pending() -> None:
    ledger = Ledger()
    ledger.delivered({0: 3, 1: 4})
    committing = ledger.pending
    ledger.delivered({0: 5})
    ledger.acknowledge(committing)
    assert ledger.pending == {0: 5}
    assert ledger.rewind({}) == {0: 3, 1: 4}


def test_positions_that_moved_unnoticed_are_where_reading_goes_on() -> None:
    ledger = Ledger()
    ledger.read(batch(0, 10, 11))
    ledger.read(batch(1, 5))
    ledger.delivered({0: 12})
    assert ledger.rewind({0: 12, 2: 8}) == {0: 12, 1: 5}
    assert ledger.rewind({}) == {0: 12, 1: 5}


def test_a_dropped_partition_begins_anew() -> None:
    ledger = Ledger()
    ledger.read(batch(0, 10))
    ledger.delivered({0: 11, 1: 4})
    ledger.drop([0])
    assert ledger.pending == {1: 4}
    ledger.acknowledge({0: 11, 1: 4})
    ledger.read(batch(0, 7))
    assert ledger.rewind({}) == {0: 7, 1: 4}
