"""Leader epochs of records that were read: a position is committed with the epoch of the record before it.

A broker compares that epoch with what its log has there, and so notices a log that was cut off and has grown again
(KIP-320).
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from headwater.native.kafka import Place, Received

UNKNOWN: Final = -1
KEPT: Final = 16
"""Changes of the leader that are remembered of each partition: positions lie behind the last commit."""


class LeaderEpochs:
    """By partition, from which offset on records have which epoch."""

    def __init__(self) -> None:
        self._epochs: dict[int, list[tuple[int, int]]] = {}

    def begin(self, place: Place) -> None:
        """Reading begins here; `place.epoch` is that of the record before."""
        self._epochs[place.partition] = [(place.offset - 1, place.epoch)]

    def read(self, received: Received) -> None:
        """Note the epochs of records."""
        partitions = np.frombuffer(received.partitions, np.int64)
        epochs = np.frombuffer(received.leader_epochs, np.int32)
        changes = (partitions[1:] != partitions[:-1]) | (epochs[1:] != epochs[:-1])
        for row in [0, *(np.flatnonzero(changes) + 1).tolist()]:
            known = self._epochs.setdefault(received.partitions[row], [])
            if not known or known[-1][1] != received.leader_epochs[row]:
                known.append((received.offsets[row], received.leader_epochs[row]))
                del known[:-KEPT]

    def before(self, partition: int, position: int) -> int:
        """The epoch of the record before a position; -1 when it is not known. Any thread may ask."""
        known = self._epochs.get(partition, [])
        return next((epoch for first, epoch in reversed(known) if first < position), UNKNOWN)

    def end(self, partitions: Collection[int]) -> None:
        """Forget these partitions."""
        for partition in partitions:
            self._epochs.pop(partition, None)
