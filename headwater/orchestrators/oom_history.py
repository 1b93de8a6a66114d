"""Decides from out-of-memory kills in a slot how the next worker reads its partitions."""

from collections.abc import Iterable

from headwater.model.reading_plan import IsolationStatus, PartitionPosition, ReadingPlan

REPEATED_WITHIN_S = 600.0
"""Two out-of-memory kills within this time make the next worker read its partitions one by one.

A commit between the two kills does not change this: a worker that is killed while it reads one partition may have
committed records of another one. To read partitions one by one costs only some seconds for each.
"""


class OomHistory:
    """The out-of-memory kills of one slot, and the reading plan of the next worker.

    When a worker is killed while it reads a single partition, that partition is quarantined: workers read it only once
    an hour, and alone, while its committed position does not change. A quarantine applies to one spec: the first worker
    with another spec reads its partitions one by one.

    Attributes:
        quarantined_in_any_slot: The positions that `set_quarantined_in_any_slot` has stored.
    """

    def __init__(self) -> None:
        self._spec_hash = ""
        self._isolates_partitions = False
        self._quarantined: dict[int, int] = {}
        self._quarantined_with_previous_spec: frozenset[PartitionPosition] = frozenset()
        self.quarantined_in_any_slot: frozenset[PartitionPosition] = frozenset()
        self._last_kill_at = float("-inf")

    def reading_plan(self, spec_hash: str) -> ReadingPlan:
        """Return how a worker with this spec reads its partitions."""
        if spec_hash == self._spec_hash:
            return ReadingPlan(self._isolates_partitions, self.quarantined)
        return ReadingPlan(
            isolates_partitions=self._isolates_partitions or bool(self._quarantined or self.quarantined_in_any_slot)
        )

    @property
    def quarantined(self) -> tuple[PartitionPosition, ...]:
        """The quarantined partitions, each with the committed position at which it was quarantined."""
        return tuple(PartitionPosition(partition, offset) for partition, offset in sorted(self._quarantined.items()))

    def set_quarantined_in_any_slot(self, positions: Iterable[PartitionPosition]) -> None:
        """Store the positions that are quarantined in any slot of the worker set.

        They matter for the next spec only: its workers may be assigned the partitions of other slots, so each of them
        first reads its partitions one by one.
        """
        self.quarantined_in_any_slot = frozenset(positions)

    def on_isolation_status(self, spec_hash: str, status: IsolationStatus) -> None:
        """Update the state from a heartbeat of the slot's worker.

        The status says how far the worker has come in reading its partitions one by one.
        """
        self._reset_for_new_spec(spec_hash)
        self._isolates_partitions = not status.is_over
        self._quarantined = dict(status.quarantined)

    def record_kill(self, spec_hash: str, isolation: IsolationStatus | None, now: float) -> bool:
        """Record an out-of-memory kill of the slot's worker.

        Returns whether records at the same position have already killed a worker with the previous spec.

        Args:
            spec_hash: The spec of the worker.
            isolation: The isolation status in the last heartbeat of the worker, if it had one.
            now: The time of the kill, in monotonic seconds.
        """
        self._reset_for_new_spec(spec_hash)
        isolated = None if isolation is None else isolation.isolated
        if isolated is not None:
            self._quarantined[isolated.partition] = isolated.offset
        if isolated is not None or now - self._last_kill_at < REPEATED_WITHIN_S:
            self._isolates_partitions = True
        self._last_kill_at = now
        return isolated in self._quarantined_with_previous_spec

    def _reset_for_new_spec(self, spec_hash: str) -> None:
        """Reset the history when the slot's worker has another spec."""
        if spec_hash == self._spec_hash:
            return
        self._isolates_partitions = self.reading_plan(spec_hash).isolates_partitions
        self._quarantined_with_previous_spec = self.quarantined_in_any_slot.union(self.quarantined)
        self._spec_hash, self._quarantined = spec_hash, {}
