"""Remembers leader epochs of records.

A position is committed with the leader epoch of the record before it. A broker compares this epoch with the epoch in
its log, and so detects a log that was truncated and has grown again (KIP-320).
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from headwater.native.librdkafka import FetchedColumns, PartitionOffset

UNKNOWN: Final = -1
MAX_EPOCHS: Final = 16
"""How many leader epochs are remembered per partition. Only those since the last commit are needed."""


class LeaderEpochs:
    """Remembers for each partition at which offset each leader epoch begins."""

    def __init__(self) -> None:
        self._epochs: dict[int, list[tuple[int, int]]] = {}
        """By partition, the first offset of each epoch and the epoch, in ascending order."""

    def set_start(self, start: PartitionOffset) -> None:
        """Set the offset where reading starts.

        The leader epoch of `start` is the epoch of the record before this offset.
        """
        self._epochs[start.partition] = [(start.offset - 1, start.leader_epoch)]

    def add(self, fetched: FetchedColumns) -> None:
        """Add the epochs of records that were read."""
        partitions = np.frombuffer(fetched.partitions, np.int64)
        epochs = np.frombuffer(fetched.leader_epochs, np.int32)
        changes = (partitions[1:] != partitions[:-1]) | (epochs[1:] != epochs[:-1])
        for row in [0, *(np.flatnonzero(changes) + 1).tolist()]:
            self._add(fetched.partitions[row], fetched.offsets[row], fetched.leader_epochs[row])

    def _add(self, partition: int, offset: int, epoch: int) -> None:
        """Add the epoch of a record.

        The list is replaced and not changed, because another thread may read it.
        """
        epochs = self._epochs.get(partition, [])
        if not epochs or epochs[-1][1] != epoch:
            self._epochs[partition] = [*epochs, (offset, epoch)][-MAX_EPOCHS:]

    def epoch_before(self, partition: int, position: int) -> int:
        """Return the epoch of the record before a position; UNKNOWN when it is not known.

        Thread-safe.
        """
        epochs = self._epochs.get(partition, [])
        return next((epoch for first, epoch in reversed(epochs) if first < position), UNKNOWN)

    def remove(self, partitions: Collection[int]) -> None:
        """Forget these partitions."""
        for partition in partitions:
            self._epochs.pop(partition, None)
