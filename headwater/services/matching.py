"""Matches the transforms of a request to the stored ones that they update: pure functions.

A filter's values belong to its uid, so a wrong match would give the values of one filter to another.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Protocol

from headwater.model.transform import KnownTransform


class SentTransform(Protocol):
    """The members by which a sent transform is matched. content: the expression of a filter, or a script."""

    @property
    def uid(self) -> str | None: ...
    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def content(self) -> str: ...


def match(
    sent: Sequence[SentTransform], stored: Sequence[KnownTransform], *, by_content: bool
) -> list[KnownTransform | None]:
    """For each sent transform the stored one whose uid it keeps; None when it is new.

    A uid decides, then a name with its type. With by_content, a sent transform then takes over the stored one that it
    equals, and one that equals none may take over the one at its own position. Refusing a uid that is unknown, that
    is sent twice or whose transform has another type is left to the caller; all other matches are of one type, and
    no stored transform is matched twice.
    """
    matching = _Matching(sent, stored)
    matching.by_uid()
    matching.by_name()
    if by_content:
        matching.by_content()
        matching.by_position()
    return matching.found


class _Matching:
    """The matches found so far. Each rule is for the sent transforms that the rules before it left unmatched."""

    def __init__(self, sent: Sequence[SentTransform], stored: Sequence[KnownTransform]) -> None:
        self._sent = sent
        self._stored = stored
        self._taken: set[str] = set()
        self.found: list[KnownTransform | None] = [None] * len(sent)

    def by_uid(self) -> None:
        known = {transform.uid: transform for transform in self._stored}
        for place, new in enumerate(self._sent):
            if new.uid in known:
                self._take(place, known[new.uid])

    def by_name(self) -> None:
        for place, new in self._unmatched():
            same = (known for known in self._stored if (known.name, known.type) == (new.name, new.type))
            if new.name is not None and (known := next(same, None)) and known.uid not in self._taken:
                self._take(place, known)

    def by_content(self) -> None:
        """Match equal transforms; of several equal ones, those at the nearest positions, in order."""
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, new in self._unmatched():
            places[_identity(new)].append(place)
        for identity, here in places.items():
            there = [i for i, known in enumerate(self._stored) if self._is_free(i) and _identity(known) == identity]
            for place, position in _nearest(here, there):
                self._take(place, self._stored[position])

    def by_position(self) -> None:
        """Match a transform that was edited at its position, when no other transform equals either form of it."""
        if len(self._sent) != len(self._stored):
            return
        before, after = {_identity(known) for known in self._stored}, {_identity(new) for new in self._sent}
        for place, new in self._unmatched():
            known = self._stored[place]
            edited = _identity(new) not in before and _identity(known) not in after
            renamed = new.name is not None and known.name is not None  # different names are different transforms
            if edited and not renamed and new.type == known.type and self._is_free(place):
                self._take(place, known)

    def _unmatched(self) -> Iterator[tuple[int, SentTransform]]:
        return ((i, new) for i, new in enumerate(self._sent) if new.uid is None and self.found[i] is None)

    def _is_free(self, position: int) -> bool:
        return self._stored[position].uid not in self._taken

    def _take(self, place: int, known: KnownTransform) -> None:
        self.found[place] = known
        self._taken.add(known.uid)


def _identity(transform: SentTransform | KnownTransform) -> tuple[str, str]:
    return transform.type, transform.content


def _nearest(here: Sequence[int], there: Sequence[int]) -> list[tuple[int, int]]:
    """Pair positions of two ascending sequences in order, with the least sum of distances; all of the shorter one."""
    if len(here) > len(there):
        return [(place, position) for position, place in _nearest(there, here)]
    best: list[tuple[float, tuple[int, ...]]] = [(0, ()), *([(inf, ())] * len(here))]
    for position in there:
        for count in reversed(range(len(here))):
            distance, chosen = best[count]
            best[count + 1] = min(best[count + 1], (distance + abs(here[count] - position), (*chosen, position)))
    return list(zip(here, best[-1][1], strict=True))
