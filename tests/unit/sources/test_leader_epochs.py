"""The leader epochs that are committed with positions."""

from collections.abc import Sequence

from headwater.native import BytesColumn
from headwater.native.ffi import Column
from headwater.native.librdkafka import FetchedColumns, PartitionOffset
from headwater.sources.leader_epochs import MAX_EPOCHS, UNKNOWN, LeaderEpochs
from tests.support.columns import numbered, numbers


def fetched(offsets: Sequence[int], epochs: Sequence[int], partition: int = 0) -> FetchedColumns:
    """Return records of one partition."""
    empty = BytesColumn.of([])
    partitions = numbers([partition] * len(offsets))
    return FetchedColumns(empty, empty, Column("q"), partitions, numbers(offsets), numbered(epochs), [], {})


def test_the_epoch_of_the_record_before_a_position() -> None:
    epochs = LeaderEpochs()
    epochs.set_start(PartitionOffset(0, 10, 3))
    epochs.add(fetched([10, 11, 12, 15], [3, 4, 4, 6]))
    expected = {9: UNKNOWN, 10: 3, 11: 3, 12: 4, 13: 4, 15: 4, 16: 6, 99: 6}
    assert {position: epochs.epoch_before(0, position) for position in expected} == expected
    assert epochs.epoch_before(1, 10) == UNKNOWN
    epochs.remove([0])
    assert epochs.epoch_before(0, 16) == UNKNOWN


def test_old_epochs_are_forgotten() -> None:
    epochs, count = LeaderEpochs(), MAX_EPOCHS + 5
    epochs.add(fetched(range(count), range(count)))
    assert epochs.epoch_before(0, count) == count - 1
    assert epochs.epoch_before(0, 6) == 5
    assert epochs.epoch_before(0, 5) == UNKNOWN


class LatePosition(int):
    """A position in another thread, which is interrupted while it compares offsets.

    New epochs are added then.
    """

    epochs: LeaderEpochs

    def __gt__(self, offset: int) -> bool:
        self.epochs.add(fetched([1_000 + offset], [1_000 + offset]))
        return int(self) > offset


def test_epochs_may_be_added_during_a_search() -> None:
    epochs, position = LeaderEpochs(), LatePosition(3)
    position.epochs = epochs
    epochs.add(fetched(range(MAX_EPOCHS), range(MAX_EPOCHS)))
    assert epochs.epoch_before(0, position) == 2
