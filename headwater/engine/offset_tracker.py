"""Tracks the offsets of each assigned partition: first read, produced, committed."""

from collections.abc import Iterable

from headwater.model.record import RecordBatch
from headwater.sources.base import Positions


class OffsetTracker:
    """The positions of the partitions that are assigned to this worker.

    A position is the next offset to read.
    """

    def __init__(self) -> None:
        self._committed: Positions = {}
        """Where a rewind starts: the committed positions, or where reading began."""
        self._produced: Positions = {}

    def on_read(self, batch: RecordBatch) -> None:
        """Record a batch that was read.

        Until the first commit, a rewind starts at the first record that was read.
        """
        first = batch.first_offsets()
        if not self._committed.keys() >= first.keys():
            self.set_starts(first)

    def set_starts(self, positions: Positions) -> None:
        """Set where reading began, for partitions of which no record was read yet."""
        self._committed = positions | self._committed

    def on_produced(self, positions: Positions) -> None:
        """Record that the outputs of all records before these positions are produced."""
        self._produced.update(positions)

    @property
    def pending(self) -> Positions:
        """The positions to commit: the outputs before them are produced, but not committed yet."""
        return dict(self._produced)

    def on_commit_ended(self, positions: Positions) -> None:
        """Record that the commit of these positions, which `pending` returned, has ended.

        If the commit has failed, the source or the delivery keeps the positions, and commits them with a later call.
        Newer positions stay pending.
        """
        self._committed.update({p: offset for p, offset in positions.items() if p in self._produced})
        self._produced = {p: offset for p, offset in self._produced.items() if positions.get(p) != offset}

    def rewind(self, stored: Positions) -> Positions:
        """Discard the pending positions, and return the positions to read from again.

        Args:
            stored: Positions from the source. They may be newer than the positions of the last `on_commit_ended`.
        """
        self._produced.clear()
        self._committed.update({p: offset for p, offset in stored.items() if p in self._committed})
        return dict(self._committed)

    def on_revoked(self, partitions: Iterable[int]) -> None:
        """Remove partitions that this worker has lost."""
        for partition in partitions:
            self._committed.pop(partition, None)
            self._produced.pop(partition, None)
