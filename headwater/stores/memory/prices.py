"""Price states in memory: the twin of stores/redis/prices.py. Nothing is removed by time."""

import threading
from collections.abc import Collection, Mapping, Sequence

from headwater.model.price.tick import partition_of
from headwater.stores.base import PriceWrite


class MemoryPrices:
    """PriceStore in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[int, str] = {}
        self._ends: dict[int, int] = {}
        self._states: dict[tuple[int, bytes], bytes] = {}
        self._hours: dict[tuple[int, int, bytes], bytes] = {}
        self._chains: set[str] = set()

    def take(self, owner: str, partitions: Collection[int]) -> Mapping[int, int]:
        """See PriceStore."""
        with self._lock:
            self._owners.update(dict.fromkeys(partitions, owner))
            return {p: self._ends[p] for p in partitions if p in self._ends}

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[bytes | None]:
        """See PriceStore."""
        with self._lock:
            return [self._states.get((partition, token)) for token in tokens]

    def read_hours(self, partition: int, hours: Sequence[tuple[int, bytes]]) -> list[bytes | None]:
        """See PriceStore."""
        with self._lock:
            return [self._hours.get((partition, *hour)) for hour in hours]

    def write(self, partition: int, owner: str, written: PriceWrite) -> bool:
        """See PriceStore."""
        with self._lock:
            if self._owners.get(partition) != owner:
                return False
            self._states |= {(partition, token): state for token, state in written.states.items()}
            self._hours |= {(partition, *hour): ticks for hour, ticks in written.hours.items()}
            self._ends[partition] = written.end
            return True

    def note_chains(self, chains: Collection[str]) -> None:
        """See PriceStore."""
        with self._lock:
            self._chains.update(chains)

    def chains(self) -> Collection[str]:
        """See PriceStore."""
        with self._lock:
            return frozenset(self._chains)

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[tuple[bytes | None, bytes | None]]:
        """See PriceStore."""
        with self._lock:
            found = [(partition_of(token), token) for token in tokens]
            return [(self._states.get((p, token)), self._hours.get((p, hour, token))) for p, token in found]
