"""Quotas of an owner: usage and limits of each, and reservations for values that are written to sets."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from headwater.errors import QuotaExceeded
from headwater.model.audit import actor
from headwater.model.dataset import SetId
from headwater.model.quota import MEANINGS, QUOTA_NAMES, QuotaName, Reservation
from headwater.stores.base import ValuePage, QuotaStore, Reservations, SetCounts, SetStore, SetWriteResult

VALUES_PER_STEP = 50_000
"""A body of unknown length reserves so many values at a time."""
GIVEN_UP_AFTER_S = 3_600.0
"""A reservation that was not renewed for so long has expired, since its writer was killed."""
SET_VALUES: QuotaName = "set_values"


class CountedSets(SetStore, SetCounts, Protocol):
    """A SetStore that tells how many values its sets hold."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """The usage and the limit of one quota of an owner. allowed: None for any number."""

    name: QuotaName
    used: int
    allowed: int | None


@dataclass(frozen=True, slots=True)
class QuotaStores:
    """The stores by which quotas are enforced. clock: epoch seconds, which may be off by minutes."""

    quotas: QuotaStore
    sets: CountedSets
    reservations: Reservations
    clock: Callable[[], float] = time.time


def limits(store: QuotaStore, counts: SetCounts, owner: str) -> Sequence[QuotaUsage]:
    """Every quota of an owner, whether it is bounded or not. Raises StoreUnavailable, SetStoreUnavailable."""
    allowed, used = store.allowed(owner), dict(store.usage(owner))
    used[SET_VALUES] = sum(counts.counts(store.sets(owner)))
    return [QuotaUsage(name, used[name], allowed[name]) for name in QUOTA_NAMES]


class QuotaSets:
    """A SetStore that keeps the values of the caller's sets within the caller's quota, and within that of all owners.

    A write first reserves room for the values that it may add, and then compares: values of all sets, and what other
    writes have reserved. Of two writes at once each sees the other's reservation, so that together they never end
    above the quota; near the quota either may be refused although one of them alone would have fitted.
    """

    def __init__(self, stores: QuotaStores) -> None:
        self._stores = stores
        self._sets = stores.sets
        self.contains_many = self._sets.contains_many
        self.count = self._sets.count
        self.counts = self._sets.counts
        self.sweep = self._sets.sweep

    def add(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore. Raises QuotaExceeded before anything is written."""
        if not self._is_bounded():
            return self._sets.add(target, values)
        distinct = list(dict.fromkeys(values))
        with _reserved(self._stores, target) as room:
            if not room.take(len(distinct)):
                room.require(self._sets.contains_many(target, distinct).count(False))
            return self._sets.add(target, distinct)

    def replace(self, target: SetId, values: Iterable[str]) -> SetWriteResult:
        """See SetStore. Values that a body repeats count each time. Raises QuotaExceeded; then nothing changes."""
        if not self._is_bounded():
            return self._sets.replace(target, values)
        with _reserved(self._stores, target, in_place_of=self._sets.count(target)[0]) as room:
            return self._sets.replace(target, room.counted(values))

    def remove(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore."""
        return self._sets.remove(target, values)

    def page(self, target: SetId, cursor: int | None, count: int) -> ValuePage:
        """See SetStore."""
        return self._sets.page(target, cursor, count)

    def drop(self, target: SetId) -> None:
        """See SetStore. Reservations of values that the set held go with it."""
        self._sets.drop(target)
        if self._is_bounded():
            held = [one.id for one in self._stores.reservations.all() if one.target == target and one.written]
            self._stores.reservations.remove(held)

    def _is_bounded(self) -> bool:
        quotas = self._stores.quotas
        return SET_VALUES in quotas.total or quotas.allowed(actor().owner)[SET_VALUES] is not None


@contextmanager
def _reserved(stores: QuotaStores, target: SetId, in_place_of: int | None = None) -> Iterator["_Room"]:
    first = Reservation(secrets.token_hex(8), actor().owner, target, 0, stores.clock() + GIVEN_UP_AFTER_S)
    try:
        room = _Room(stores, first, in_place_of)
        yield room
    except BaseException:
        stores.reservations.remove([first.id])
        raise
    room.end()


class _Room:
    """The reservation of one write. in_place_of: how many values the write replaces; None when it adds."""

    def __init__(self, stores: QuotaStores, first: Reservation, in_place_of: int | None) -> None:
        self._stores = stores
        self._mine = first
        self._in_place_of = in_place_of

    def take(self, values: int) -> bool:
        """Reserve so many values in all; False when that would exceed a quota."""
        return self._excess(values) is None

    def require(self, values: int) -> None:
        """Reserve so many values in all. Raises QuotaExceeded."""
        if excess := self._excess(values):
            raise excess

    def counted(self, values: Iterable[str]) -> Iterator[str]:
        """The values, each of which is reserved before it is yielded. Raises QuotaExceeded."""
        rest, taken = iter(values), 0
        while part := list(islice(rest, VALUES_PER_STEP)):
            taken += len(part)
            self.require(taken)
            yield from part

    def end(self) -> None:
        """Release the reservation, or mark it as written while the owner of the set is not recorded yet."""
        if self._mine.target in self._stores.quotas.sets(self._mine.owner):
            self._stores.reservations.remove([self._mine.id])
        else:
            self._stores.reservations.put(replace(self._mine, written=True))

    def _excess(self, values: int) -> QuotaExceeded | None:
        self._mine = replace(self._mine, values=values, until=self._stores.clock() + GIVEN_UP_AFTER_S)
        self._stores.reservations.put(self._mine)
        if values <= (self._in_place_of or 0):
            return None
        now = self._stores.clock()
        others = [one for one in self._stores.reservations.all() if one.id != self._mine.id and one.until > now]
        return self._excess_of_owner(others) or self._excess_of_all(others)

    def _excess_of_owner(self, others: Sequence[Reservation]) -> QuotaExceeded | None:
        owner = self._mine.owner
        allowed = self._stores.quotas.allowed(owner)[SET_VALUES]
        if allowed is None:
            return None
        used = self._used([one for one in others if one.owner == owner], owner)
        wanted = used + self._mine.values
        text = f"You have {used:,} of {allowed:,} {MEANINGS[SET_VALUES]}, and would have {wanted:,}."
        return _exceeded(text) if wanted > allowed else None

    def _excess_of_all(self, others: Sequence[Reservation]) -> QuotaExceeded | None:
        allowed = self._stores.quotas.total.get(SET_VALUES)
        if allowed is None or self._used(others, None) + self._mine.values <= allowed:
            return None
        return _exceeded(f"All owners together may have {allowed:,} {MEANINGS[SET_VALUES]}, and that is used up.")

    def _used(self, others: Sequence[Reservation], owner: str | None) -> int:
        """The values of all sets, except the set that is replaced, and what other writes have reserved."""
        targets = set(self._stores.quotas.sets(owner))
        reserved = sum(one.values for one in others if not (one.written and one.target in targets))
        if self._in_place_of is not None:
            targets.discard(self._mine.target)
        return sum(self._stores.sets.counts(list(targets))) + reserved


def _exceeded(text: str) -> QuotaExceeded:
    advice = "Remove some that you do not need, or ask the operator for more (quota set_values)."
    return QuotaExceeded(f"Nothing was changed. {text} {advice}")
