"""Reads quotas and their usage, and enforces the quota of set values by reservations."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from headwater.errors import DatabaseUnavailable, QuotaExceeded
from headwater.model.audit import current_actor
from headwater.model.quota import QUOTA_MEANINGS, QUOTA_NAMES, QuotaName, Reservation
from headwater.model.value_sets import SetId
from headwater.stores.protocols.quotas import QuotaStore, Reservations
from headwater.stores.protocols.sets import SetCounts, SetStore, SetWriteResult, ValuePage

VALUES_PER_STEP = 50_000
"""A replace, whose number of values is not known in advance, reserves this many values at a time."""
RESERVATION_TTL_S = 3_600.0
"""A reservation that has not been renewed for this long has expired."""
SET_VALUES: QuotaName = "set_values"


class CountableSets(SetStore, SetCounts, Protocol):
    """A SetStore that can count the values of several sets."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """The usage and the limit of one quota of an owner.

    Attributes:
        limit: None means no limit.
    """

    name: QuotaName
    used: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class QuotaStores:
    """The stores with which quotas are enforced.

    Attributes:
        epoch_s: Returns the seconds since the epoch. The clocks of the processes may differ by minutes.
    """

    quotas: QuotaStore
    sets: CountableSets
    reservations: Reservations
    epoch_s: Callable[[], float] = time.time


def quota_usage(store: QuotaStore, counts: SetCounts, owner: str) -> Sequence[QuotaUsage]:
    """Return the usage of every quota of an owner, including quotas without a limit.

    Raises DatabaseUnavailable, RedisUnavailable.
    """
    limits, used = store.limits(owner), dict(store.usage(owner))
    used[SET_VALUES] = sum(counts.counts(store.sets(owner)))
    return [QuotaUsage(name, used[name], limits[name]) for name in QUOTA_NAMES]


class QuotaEnforcingSets:
    """A SetStore that enforces the quotas of set values.

    One quota limits the owner of the request's API key, and another quota limits all owners together.

    A write first reserves the values that it may add, and then compares the sum of all stored values and all
    reservations with the quotas. Concurrent writes see each other's reservations, so together they never exceed a
    quota. Close to a quota, both may raise QuotaExceeded although one of them alone would not exceed it.
    """

    def __init__(self, stores: QuotaStores) -> None:
        self._stores = stores
        self._sets = stores.sets
        self.contains_many = self._sets.contains_many
        self.count = self._sets.count
        self.summary = self._sets.summary
        self.counts = self._sets.counts
        self.sweep = self._sets.sweep

    def add(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore. Raises QuotaExceeded before anything is written."""
        if not self._has_limit():
            return self._sets.add(set_id, values)
        distinct = list(dict.fromkeys(values))
        with _reservation(self._stores, set_id) as reservation:
            # The values are first reserved as if all of them were new. Only near a quota, the new values are counted,
            # which needs a look-up.
            if not reservation.reserve(len(distinct)):
                reservation.require(self._sets.contains_many(set_id, distinct).count(False))
            return self._sets.add(set_id, distinct)

    def replace(self, set_id: SetId, values: Iterable[str]) -> SetWriteResult:
        """See SetStore. Raises QuotaExceeded; nothing is changed then.

        A repeated value counts each time, because the values are not all in memory at the same time.
        """
        if not self._has_limit():
            return self._sets.replace(set_id, values)
        with _reservation(self._stores, set_id, replaced_values=self._sets.count(set_id).size) as reservation:
            return self._sets.replace(set_id, reservation.reserve_all(values))

    def remove(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore."""
        return self._sets.remove(set_id, values)

    def page(self, set_id: SetId, cursor: int | None, count: int) -> ValuePage:
        """See SetStore."""
        return self._sets.page(set_id, cursor, count)

    def drop(self, set_id: SetId) -> None:
        """See SetStore. Also removes the reservations of values that have been written to the set."""
        self._sets.drop(set_id)
        if self._has_limit():
            reservations = self._stores.reservations.all()
            self._stores.reservations.remove(
                [reservation.id for reservation in reservations if reservation.target == set_id and reservation.written]
            )

    def _has_limit(self) -> bool:
        quotas = self._stores.quotas
        return SET_VALUES in quotas.total_limits or quotas.limits(current_actor().owner)[SET_VALUES] is not None


@contextmanager
def _reservation(
    stores: QuotaStores, set_id: SetId, replaced_values: int | None = None
) -> Iterator["_ActiveReservation"]:
    """Reserve values during the block, which writes the values.

    When the block raises, the reservation is removed.
    """
    initial = Reservation(secrets.token_hex(8), current_actor().owner, set_id, 0, stores.epoch_s() + RESERVATION_TTL_S)
    try:
        reservation = _ActiveReservation(stores, initial, replaced_values)
        yield reservation
    except BaseException:
        stores.reservations.remove([initial.id])
        raise
    reservation.end()


class _ActiveReservation:
    """The reservation of one write.

    Args:
        reservation: A reservation of no values, which is not stored yet.
        replaced_values: How many values the write replaces; None when it adds values.
    """

    def __init__(self, stores: QuotaStores, reservation: Reservation, replaced_values: int | None) -> None:
        self._stores = stores
        self._reservation = reservation
        self._replaced_values = replaced_values

    def reserve(self, values: int) -> bool:
        """Store the reservation with this number of values, even when it exceeds a quota.

        Returns whether the number does not exceed a quota.
        """
        return self._store_and_find_error(values) is None

    def require(self, values: int) -> None:
        """Reserve this number of values in place of the previous number. Raises QuotaExceeded."""
        if error := self._store_and_find_error(values):
            raise error

    def reserve_all(self, values: Iterable[str]) -> Iterator[str]:
        """Yield the values, and reserve each value before it is yielded. Raises QuotaExceeded."""
        remaining, reserved = iter(values), 0
        while part := list(islice(remaining, VALUES_PER_STEP)):
            reserved += len(part)
            self.require(reserved)
            yield from part

    def end(self) -> None:
        """Release the reservation, or mark it as written.

        It is marked as written when the database does not record the set for its owner yet. The reservation then counts
        until the database does, for RESERVATION_TTL_S at most.
        """
        if self._is_recorded():
            self._stores.reservations.remove([self._reservation.id])
        else:
            self._stores.reservations.put(replace(self._reservation, written=True))

    def _is_recorded(self) -> bool:
        """Return whether the database records the set for its owner.

        Returns False when the database is unavailable, because the values are written already.
        """
        try:
            return self._reservation.target in self._stores.quotas.sets(self._reservation.owner)
        except DatabaseUnavailable:
            return False

    def _store_and_find_error(self, values: int) -> QuotaExceeded | None:
        """Store the reservation with a new number of values.

        Returns the error when the number exceeds a quota.
        """
        self._reservation = replace(self._reservation, values=values, until=self._stores.epoch_s() + RESERVATION_TTL_S)
        self._stores.reservations.put(self._reservation)
        if values <= (self._replaced_values or 0):
            return None
        now, stored = self._stores.epoch_s(), self._stores.reservations.all()
        self._stores.reservations.remove([each.id for each in stored if each.until <= now])
        other_reservations = [other for other in stored if other.id != self._reservation.id and other.until > now]
        return self._owner_quota_error(other_reservations) or self._total_quota_error(other_reservations)

    def _owner_quota_error(self, other_reservations: Sequence[Reservation]) -> QuotaExceeded | None:
        owner = self._reservation.owner
        limit = self._stores.quotas.limits(owner)[SET_VALUES]
        if limit is None:
            return None
        used = self._used([other for other in other_reservations if other.owner == owner], owner)
        needed = used + self._reservation.values
        if needed <= limit:
            return None
        text = f"You have {used:,} of {limit:,} {QUOTA_MEANINGS[SET_VALUES]}, and would have {needed:,}."
        advice = "Remove some that you do not need, or ask the operator for more (quota set_values)."
        return QuotaExceeded(f"Nothing was changed. {text} {advice}", used, limit)

    def _total_quota_error(self, other_reservations: Sequence[Reservation]) -> QuotaExceeded | None:
        limit = self._stores.quotas.total_limits.get(SET_VALUES)
        if limit is None or self._used(other_reservations, None) + self._reservation.values <= limit:
            return None
        return QuotaExceeded(
            "Nothing was changed. The request would exceed the limit for all owners together: "
            f"{limit:,} {QUOTA_MEANINGS[SET_VALUES]}. Ask the operator for more (setting quota_total_set_values).",
            None,
            limit,
        )

    def _used(self, other_reservations: Sequence[Reservation], owner: str | None) -> int:
        """Return the values in the sets of an owner, plus the values that other writes reserved.

        The values of a set that this write replaces do not count.

        Args:
            owner: None means all owners.
        """
        set_ids = set(self._stores.quotas.sets(owner))
        reserved = sum(other.values for other in other_reservations if not (other.written and other.target in set_ids))
        if self._replaced_values is not None:
            set_ids.discard(self._reservation.target)
        return sum(self._stores.sets.counts(list(set_ids))) + reserved
