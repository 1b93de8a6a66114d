"""How far each assigned partition has come: read, delivered, committed."""

from collections.abc import Iterable

from headwater.model.record import RecordBatch
from headwater.sources.base import Positions


class OffsetTracker:
    """Positions of the partitions that are ours. A position is the next offset to read."""

    def __init__(self) -> None:
        self._acknowledged: Positions = {}
        self._delivered: Positions = {}

    def read(self, batch: RecordBatch) -> None:
        """Note a batch as it was read: a partition's first record is where reading again would start."""
        first = batch.first_offsets()
        if not self._acknowledged.keys() >= first.keys():
            self.begin(first)

    def begin(self, positions: Positions) -> None:
        """Note where reading began, for partitions of which nothing was read yet."""
        self._acknowledged = positions | self._acknowledged

    def delivered(self, positions: Positions) -> None:
        """Records before these positions were handed to the producer, or need no delivery."""
        self._delivered.update(positions)

    @property
    def pending(self) -> Positions:
        """What was delivered since `acknowledge`: the positions to commit."""
        return dict(self._delivered)

    def acknowledge(self, positions: Positions) -> None:
        """All before these positions is acknowledged. They were pending; what was delivered since stays so."""
        self._acknowledged.update({p: offset for p, offset in positions.items() if p in self._delivered})
        self._delivered = {p: offset for p, offset in self._delivered.items() if positions.get(p) != offset}

    def rewind(self, stored: Positions) -> Positions:
        """What was delivered since `acknowledge` is void: where to read again. stored: positions that moved since."""
        self._delivered.clear()
        self._acknowledged.update({p: offset for p, offset in stored.items() if p in self._acknowledged})
        return dict(self._acknowledged)

    def drop(self, partitions: Iterable[int]) -> None:
        """These partitions are not ours any more."""
        for partition in partitions:
            self._acknowledged.pop(partition, None)
            self._delivered.pop(partition, None)
