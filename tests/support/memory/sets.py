"""Sets, reservations and dataset names in memory.

The order and the paging of values are the same as in stores/redis.
"""

import secrets
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headwater.model.quota import Reservation
from headwater.model.value_sets import SetHistory, SetId, SetVersion
from headwater.stores.protocols.sets import SetCount, SetSummary, SetWriteResult, ValuePage
from headwater.stores.redis.sets import set_digest, value_encoding


@dataclass(slots=True)
class _Set:
    """A set with the position of each value.

    The seed, the version and the stamps are kept when the values are replaced.
    """

    values: dict[str, int] = field(default_factory=dict)
    version: int = 0
    stamps: dict[int, str] = field(default_factory=dict)
    hash_seed: int = field(default_factory=lambda: secrets.randbits(64))

    def position(self, value: str) -> int:
        [hash_] = value_encoding.hashes([value_encoding.encode(value)], self.hash_seed)
        return hash_ >> (value_encoding.HASH_BITS - value_encoding.POSITION_BITS)

    def written(self, changed: int) -> SetWriteResult:
        if changed:
            self.advance()
        return SetWriteResult(changed, self.version, len(self.values))

    def advance(self) -> None:
        self.version += 1
        self.stamps[self.version] = secrets.token_hex(6)

    def current(self) -> SetVersion:
        return SetVersion(self.version, self.stamps.get(self.version, ""))

    def history(self, numbers: Collection[int]) -> SetHistory:
        return SetHistory(self.current(), {n: self.stamps[n] for n in numbers if n in self.stamps})


class MemorySetStore:
    """A SetStore, with SetVersions, of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sets: dict[SetId, _Set] = defaultdict(_Set)

    def add(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore."""
        with self._lock:
            found = self._sets[set_id]
            new = set(values) - found.values.keys()
            found.values.update((value, found.position(value)) for value in new)
            return found.written(len(new))

    def remove(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore."""
        with self._lock:
            found = self._sets[set_id]
            gone = found.values.keys() & set(values)
            for value in gone:
                del found.values[value]
            return found.written(len(gone))

    def replace(self, set_id: SetId, values: Iterable[str]) -> SetWriteResult:
        """See SetStore."""
        new = set(values)
        with self._lock:
            found = self._sets[set_id]
            found.values = {value: found.position(value) for value in new}
            found.stamps.clear()
            found.advance()
            return SetWriteResult(len(new), found.version, len(new))

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetStore."""
        with self._lock:
            known = self._sets[set_id].values
            return [value in known for value in values]

    def page(self, set_id: SetId, cursor: int | None, count: int) -> ValuePage:
        """See SetStore."""
        with self._lock:
            known = self._sets[set_id].values
            after = sorted((p, value) for value, p in known.items() if cursor is None or p > cursor)
            total = len(known)
        end = min(count, len(after))
        while 0 < end < len(after) and after[end][0] == after[end - 1][0]:
            end += 1
        return ValuePage([value for _, value in after[:end]], after[end - 1][0] if end < len(after) else None, total)

    def count(self, set_id: SetId) -> SetCount:
        """See SetStore."""
        with self._lock:
            found = self._sets[set_id]
            return SetCount(len(found.values), found.version)

    def summary(self, set_id: SetId) -> SetSummary:
        """See SetStore."""
        with self._lock:
            found = self._sets[set_id]
            return SetSummary(len(found.values), found.version, set_digest.of_values(found.values))

    def counts(self, set_ids: Sequence[SetId]) -> Sequence[int]:
        """See SetCounts."""
        return [self.count(set_id).size for set_id in set_ids]

    def versions(self, set_ids: Sequence[SetId]) -> Sequence[SetVersion]:
        """See SetVersions."""
        with self._lock:
            return [self._sets[set_id].current() for set_id in set_ids]

    def histories(self, numbers: Mapping[SetId, Collection[int]]) -> Mapping[SetId, SetHistory]:
        """See SetVersions."""
        with self._lock:
            return {set_id: self._sets[set_id].history(each) for set_id, each in numbers.items()}

    def lose_writes(self, set_id: SetId, count: int) -> None:
        """Forget the last versions of a set, like a replica that becomes the primary.

        The values stay.
        """
        with self._lock:
            found = self._sets[set_id]
            for number in range(found.version - count + 1, found.version + 1):
                found.stamps.pop(number, None)
            found.version -= count

    def drop(self, set_id: SetId) -> None:
        """See SetStore."""
        with self._lock:
            self._sets.pop(set_id, None)

    def sweep(self) -> None:
        """Do nothing: an interrupted replacement leaves nothing behind."""


class MemoryPendingSets:
    """PendingSets of one process."""

    def __init__(self) -> None:
        self._added_at: dict[SetId, datetime] = {}

    def add(self, set_ids: Iterable[SetId], now: datetime) -> None:
        """See PendingSets."""
        self._added_at |= dict.fromkeys(set_ids, now)

    def remove(self, set_ids: Iterable[SetId]) -> None:
        """See PendingSets."""
        for set_id in set_ids:
            self._added_at.pop(set_id, None)

    def added_before(self, time: datetime) -> Sequence[SetId]:
        """See PendingSets."""
        return [set_id for set_id, added_at in self._added_at.items() if added_at < time]


class MemoryReservations:
    """Reservations of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reservations: dict[str, Reservation] = {}

    def put(self, reservation: Reservation) -> None:
        """See Reservations."""
        with self._lock:
            self._reservations[reservation.id] = reservation

    def all(self) -> Sequence[Reservation]:
        """See Reservations."""
        with self._lock:
            return list(self._reservations.values())

    def remove(self, ids: Collection[str]) -> None:
        """See Reservations."""
        with self._lock:
            for reservation_id in ids:
                self._reservations.pop(reservation_id, None)


class MemoryDatasetNames:
    """DatasetNames of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, str], str] = {}

    def put(self, owner: str, name: str, dataset_id: str) -> None:
        """See DatasetNames."""
        with self._lock:
            self._ids[owner, name] = dataset_id

    def discard(self, owner: str, name: str, dataset_id: str) -> None:
        """See DatasetNames."""
        with self._lock:
            if self._ids.get((owner, name)) == dataset_id:
                del self._ids[owner, name]

    def resolve(self, owner: str, names: Sequence[str]) -> list[str | None]:
        """See DatasetNames."""
        with self._lock:
            return [self._ids.get((owner, name)) for name in names]
