"""The protocols of the stores of sets.

They cover the values of sets, lookups, sizes, and the list of pending sets.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from headwater.model.value_sets import SetHistory, SetId, SetVersion


@dataclass(frozen=True, slots=True)
class SetWriteResult:
    """The result of a write to a set.

    Attributes:
        changed: How many values the write added or removed.
        version: The version of the set after the write.
        count: The number of values in the set after the write.
    """

    changed: int
    version: int
    count: int


@dataclass(frozen=True, slots=True)
class ValuePage:
    """One page of a listing of a set's values.

    Attributes:
        values: The values of the page.
        cursor: The position of the last value of the page, after which the next page begins; None on the last page.
        total: The number of values in the set.
    """

    values: list[str]
    cursor: int | None
    total: int


class SetCount(NamedTuple):
    """The number of values in a set (`size`), and the version of the set."""

    size: int
    version: int


class SetSummary(NamedTuple):
    """The number of values in a set (`size`), the version of the set, and its digest.

    Equal sets have equal digests, whatever was written to them before. The digest is None when it is not known and the
    set changes too often to compute it.
    """

    size: int
    version: int
    digest: str | None


class SetLookup(Protocol):
    """The part of SetStore that workers use.

    Callers pass normalised values (model/value_sets.py). An unknown set counts as empty.
    """

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """Return for each value whether it is a member of the set.

        Workers call this once per batch. All answers are from one version of the set, which contains every write that
        ended before the call. Values may repeat.
        """


class SetStore(SetLookup, Protocol):
    """Sets of strings, up to 100 million values each.

    Callers pass normalised values (model/value_sets.py). An unknown set counts as empty.
    """

    def add(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """Add values. Every read that starts afterwards sees them. Idempotent."""

    def remove(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """Remove values. Idempotent."""

    def replace(self, set_id: SetId, values: Iterable[str]) -> SetWriteResult:
        """Replace all values atomically: readers see either all old or all new values.

        An empty iterable clears the set and frees its memory. `values` is read once, in bounded memory; if it raises,
        nothing changes. In the result, `changed` and `count` are the number of distinct values.
        """

    def page(self, set_id: SetId, cursor: int | None, count: int) -> ValuePage:
        """Return the first `count` values after `cursor`, in a fixed pseudo-random order.

        `cursor` is 0 to 2^53 − 1. A value that is present during the whole listing is on exactly one page, whatever is
        written in the meantime.
        """

    def count(self, set_id: SetId) -> SetCount:
        """Return the number of values and the version."""

    def summary(self, set_id: SetId) -> SetSummary:
        """Return the number of values, the version and the digest."""

    def drop(self, set_id: SetId) -> None:
        """Remove the set with all its keys.

        The caller must ensure that nobody writes to the set any more.
        """

    def sweep(self) -> None:
        """Remove the leftovers of replacements that were interrupted at least an hour ago.

        Called periodically.
        """


class SetCounts(Protocol):
    """The sizes of sets."""

    def counts(self, set_ids: Sequence[SetId]) -> Sequence[int]:
        """Return the number of values of each set, in order."""


class SetVersions(Protocol):
    """The versions of sets. An unknown set has the version 0."""

    def versions(self, set_ids: Sequence[SetId]) -> Sequence[SetVersion]:
        """Return the present version of each set, in order.

        A lookup that starts afterwards sees all writes up to this version.
        """

    def histories(self, numbers: Mapping[SetId, Collection[int]]) -> Mapping[SetId, SetHistory]:
        """Return the present version of each set, and the stamps of earlier versions.

        A stamp is a random text that tells a version from another one with the same number, which a server assigns
        after it lost writes. The stamps of old versions are removed, at the latest when all values are replaced.

        Args:
            numbers: The numbers of the earlier versions, for each set.
        """


class PendingSets(Protocol):
    """The list of filter sets whose values are written before their revision is saved.

    The controller's sweeper removes sets of this list that an interrupted save left behind, with
    `stores.cleanup.remove_abandoned_sets`.
    """

    def add(self, set_ids: Iterable[SetId], now: datetime) -> None:
        """Add sets to the list, before the first value is written to them."""

    def remove(self, set_ids: Iterable[SetId]) -> None:
        """Remove sets from the list, after they are dropped or their revision is saved.

        Unknown sets are no error.
        """

    def added_before(self, time: datetime) -> Sequence[SetId]:
        """Return the sets that were added to the list before a time (to the second)."""
