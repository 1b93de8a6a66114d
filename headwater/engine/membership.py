"""What part of the source a worker has."""

from collections.abc import Iterable, Set

PATIENCE_S = 3.0
"""How long a wait for Kafka may last before the worker says that it waits."""
AWAITS = "Kafka has given this worker no partitions yet: it waits for its group, or for Kafka itself."


class Membership:
    """joined: partitions were assigned at least once, if none of many. Times are in monotonic seconds."""

    def __init__(self) -> None:
        self.joined = False
        self._partitions: set[int] = set()
        self._awaits_since: float | None = None

    def awaits(self, now: float) -> None:
        """The worker joins now."""
        self._awaits_since = now

    def lost(self) -> None:
        """Kafka has taken partitions away; those that it gives instead are awaited."""
        self._awaits_since = float("-inf")

    def assigned(self, partitions: Iterable[int]) -> None:
        """These came, beside those that are there."""
        self.joined = True
        self._partitions.update(partitions)
        self._awaits_since = None

    def dropped(self, partitions: Iterable[int]) -> None:
        """These went."""
        self._partitions.difference_update(partitions)

    def reason(self, now: float) -> str:
        """Why the worker has nothing to read: of a join not before it takes long. Empty: it has, or needs nothing."""
        return AWAITS if self._awaits_since is not None and now - self._awaits_since >= PATIENCE_S else ""

    def is_cut_off(self, not_read: Set[int]) -> bool:
        """True when none of its partitions is read. not_read: those that are not."""
        return bool(self._partitions) and self._partitions <= not_read
