"""Decides from the deaths by memory in a slot how the next worker reads its partitions."""

from collections.abc import Iterable

from headwater.model.worker import Heartbeat, IsolationStatus, PartitionPosition, ReadingPlan

REPEATED_WITHIN_S = 600.0
"""How soon after a death by memory a second one makes the next worker read its partitions alone.

Commits in between do not count: a worker that dies of one partition may have committed records of another one. Reading
alone costs some seconds for each partition, and nothing else.
"""


class MemoryDeaths:
    """The deaths by memory of the workers of one slot, and what follows from them for the next worker.

    A partition that a worker died of while it read only this partition is quarantined. Quarantine ends with the spec:
    the first worker of another spec reads each partition alone.
    """

    def __init__(self) -> None:
        self._spec_hash = ""
        self._read_alone = False
        self._quarantined: dict[int, int] = {}
        self._known: frozenset[PartitionPosition] = frozenset()
        self._suspects: frozenset[PartitionPosition] = frozenset()
        self._last_at = float("-inf")

    def plan(self, spec_hash: str) -> ReadingPlan:
        """How a worker of a spec reads its partitions."""
        if spec_hash == self._spec_hash:
            return ReadingPlan(self._read_alone, self.quarantined)
        return ReadingPlan(read_alone=self._read_alone or bool(self._quarantined or self._suspects))

    @property
    def quarantined(self) -> tuple[PartitionPosition, ...]:
        """The partitions that are left out, and their positions."""
        return tuple(PartitionPosition(partition, offset) for partition, offset in sorted(self._quarantined.items()))

    def suspect(self, positions: Iterable[PartitionPosition]) -> None:
        """Note what all slots of the deployment leave out: the next spec may deal the partitions out otherwise."""
        self._suspects = frozenset(positions)

    def heard(self, spec_hash: str, status: IsolationStatus) -> None:
        """Note what the slot's worker does with its partitions."""
        self._adopt(spec_hash)
        self._read_alone = not status.is_over
        self._quarantined = dict(status.quarantined)

    def died(self, spec_hash: str, last: Heartbeat | None, now: float) -> bool:
        """Note a death of the slot's worker. last: its last heartbeat.

        Returns True when the worker died of records that a worker of the spec before died of too.
        """
        self._adopt(spec_hash)
        alone = None if last is None or last.isolation is None else last.isolation.alone
        if alone is not None:
            self._quarantined[alone.partition] = alone.offset
        if alone is not None or now - self._last_at < REPEATED_WITHIN_S:
            self._read_alone = True
        self._last_at = now
        return alone in self._known

    def _adopt(self, spec_hash: str) -> None:
        """Begin anew when the slot's worker has another spec."""
        if spec_hash == self._spec_hash:
            return
        self._read_alone = self.plan(spec_hash).read_alone
        self._known = self._suspects.union(self.quarantined)
        self._spec_hash, self._quarantined = spec_hash, {}
