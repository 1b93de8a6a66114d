"""Tracks the offsets of each assigned partition: first read, delivered, committed."""

from collections.abc import Iterable

from headwater.model.record import RecordBatch
from headwater.sources.base import Positions


class OffsetTracker:
    """The positions of the partitions that this worker owns.

    A position is the next offset to read.
    """

    def __init__(self) -> None:
        self._acknowledged: Positions = {}
        self._delivered: Positions = {}

    def read(self, batch: RecordBatch) -> None:
        """Record a batch that was read.

        A rewind starts at the first record of a partition until a commit follows.
        """
        first = batch.first_offsets()
        if not self._acknowledged.keys() >= first.keys():
            self.set_starts(first)

    def set_starts(self, positions: Positions) -> None:
        """Set where reading began, for partitions of which no record was read yet."""
        self._acknowledged = positions | self._acknowledged

    def delivered(self, positions: Positions) -> None:
        """Record that all records before these positions are delivered, or need no delivery."""
        self._delivered.update(positions)

    @property
    def pending(self) -> Positions:
        """The positions to commit: those that were delivered and are not acknowledged yet."""
        return dict(self._delivered)

    def acknowledge(self, positions: Positions) -> None:
        """Record that these positions, which `pending` returned, are committed.

        Newer positions stay pending.
        """
        self._acknowledged.update({p: offset for p, offset in positions.items() if p in self._delivered})
        self._delivered = {p: offset for p, offset in self._delivered.items() if positions.get(p) != offset}

    def rewind(self, stored: Positions) -> Positions:
        """Discard the pending positions, and return the positions to read from again.

        stored: committed positions that may be newer than those of the last `acknowledge`.
        """
        self._delivered.clear()
        self._acknowledged.update({p: offset for p, offset in stored.items() if p in self._acknowledged})
        return dict(self._acknowledged)

    def drop(self, partitions: Iterable[int]) -> None:
        """Remove partitions that this worker has lost."""
        for partition in partitions:
            self._acknowledged.pop(partition, None)
            self._delivered.pop(partition, None)
