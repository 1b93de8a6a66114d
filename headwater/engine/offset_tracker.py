"""Tracks up to where records are produced, and from where they are read again."""

from collections.abc import Iterable

from headwater.model.record import RecordBatch
from headwater.sources.base import Positions


class OffsetTracker:
    """The positions of the partitions that are assigned to this worker.

    A position is the next offset to read.
    """

    def __init__(self) -> None:
        self._reread_starts: Positions = {}
        """From where records are read again: the positions of the last commit that has ended, or where reading began.

        A failed commit has ended, too, when the source or the delivery commits its positions with the next commit. A
        failed transaction has not: its records are read again.
        """
        self._produced: Positions = {}

    def on_read(self, batch: RecordBatch) -> None:
        """Take note of a batch that was read.

        Until the first commit, the first record that was read is the one from which records are read again.
        """
        first = batch.first_offsets()
        if not self._reread_starts.keys() >= first.keys():
            self.set_starts(first)

    def set_starts(self, positions: Positions) -> None:
        """Set where reading began, for partitions of which no record was read yet."""
        self._reread_starts = positions | self._reread_starts

    def on_produced(self, positions: Positions) -> None:
        """Take note that the outputs of all records before these positions are produced."""
        self._produced.update(positions)

    @property
    def pending(self) -> Positions:
        """The positions to commit: the outputs before them are produced, but not committed yet."""
        return dict(self._produced)

    def on_commit_ended(self, positions: Positions) -> None:
        """Take note that the commit of these positions, which `pending` returned, has ended.

        This is also called after a failed commit whose positions the source or the delivery commits with its next
        commit, but not after a failed transaction. Newer positions stay pending.
        """
        self._reread_starts.update({p: offset for p, offset in positions.items() if p in self._produced})
        self._produced = {p: offset for p, offset in self._produced.items() if positions.get(p) != offset}

    def reread(self, stored: Positions) -> Positions:
        """Discard the pending positions, and return the positions to read from again.

        Args:
            stored: The committed positions, where they may differ from the positions of the last `on_commit_ended`.
        """
        self._produced.clear()
        self._reread_starts.update({p: offset for p, offset in stored.items() if p in self._reread_starts})
        return dict(self._reread_starts)

    def remove_partitions(self, partitions: Iterable[int]) -> None:
        """Remove partitions that were revoked or lost."""
        for partition in partitions:
            self._reread_starts.pop(partition, None)
            self._produced.pop(partition, None)
