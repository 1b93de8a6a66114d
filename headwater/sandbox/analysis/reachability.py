"""The lattice of an escape analysis: the distances of values from surviving objects.

An object survives when it exists from one record to the next.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

UNKNOWN: Final = 8
"""The largest `deep`. It stands for any greater depth, and for values of which nothing is known."""


class Reachability(NamedTuple):
    """The surviving objects that a value reaches, by their distance from it in member accesses.

    A surviving object exists from record to record. The distance 0 is the value itself, 1 its members.

    Attributes:
        near: The distance of the nearest surviving object.
        deep: The largest distance of a surviving object, plus 1. It is 0 for a value that reaches none: a primitive, or
            an object that this call of `process` created.
    """

    near: int
    deep: int

    @property
    def survives(self) -> bool:
        """Whether the value itself is a surviving object, so that later records see a write to it."""
        return self.deep > 0 and self.near == 0

    def member(self) -> "Reachability":
        """Return the reachability of a member of the value."""
        deep = self.deep if self.deep == UNKNOWN else self.deep - 1
        return Reachability(max(0, self.near - 1), deep) if deep > 0 else NOTHING

    def in_new_object(self) -> "Reachability":
        """Return the reachability of a new object that holds the value."""
        return Reachability(min(self.near + 1, UNKNOWN - 1), min(self.deep + 1, UNKNOWN)) if self.deep else NOTHING

    def in_surviving_object(self) -> "Reachability":
        """Return the reachability of a surviving object that holds the value."""
        return Reachability(0, min(self.deep + 1, UNKNOWN))


NOTHING: Final = Reachability(0, 0)
ANYTHING: Final = Reachability(0, UNKNOWN)


def join(values: Iterable[Reachability]) -> Reachability:
    """Return the join of the lattice: a value that may be any of these."""
    reaching = [value for value in values if value.deep]
    if not reaching:
        return NOTHING
    return Reachability(min(value.near for value in reaching), max(value.deep for value in reaching))
