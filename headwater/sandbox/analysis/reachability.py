"""The lattice of an escape analysis: the distances of values from surviving objects.

An object survives when it exists from one record to the next.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

MAX_DEPTH: Final = 8
"""The largest `Reachability.depth`, which also means any greater depth.

A value of which nothing is known has this depth.
"""


class Reachability(NamedTuple):
    """The surviving objects that a value reaches, by their distance from it in member accesses.

    A surviving object exists from record to record. The distance 0 is the value itself, 1 its members.

    Attributes:
        nearest: The distance of the nearest surviving object.
        depth: The largest distance of a surviving object, plus 1. It is 0 for a value that reaches none: a primitive,
            or an object that this call of `process` created.
    """

    nearest: int
    depth: int

    @property
    def reaches_something(self) -> bool:
        """Whether the value reaches a surviving object."""
        return self.depth > 0

    @property
    def survives(self) -> bool:
        """Whether the value itself is a surviving object, so that later records see a write to it."""
        return self.reaches_something and self.nearest == 0

    def member(self) -> "Reachability":
        """Return the reachability of a member of the value."""
        depth = self.depth if self.depth == MAX_DEPTH else self.depth - 1
        return Reachability(max(0, self.nearest - 1), depth) if depth > 0 else NOTHING

    def in_new_object(self) -> "Reachability":
        """Return the reachability of a new object that holds the value."""
        return (
            Reachability(min(self.nearest + 1, MAX_DEPTH - 1), min(self.depth + 1, MAX_DEPTH))
            if self.reaches_something
            else NOTHING
        )

    def in_surviving_object(self) -> "Reachability":
        """Return the reachability of a surviving object that holds the value."""
        return Reachability(0, min(self.depth + 1, MAX_DEPTH))


NOTHING: Final = Reachability(0, 0)
ANYTHING: Final = Reachability(0, MAX_DEPTH)
"""The reachability of a value of which nothing is known."""


def join(values: Iterable[Reachability]) -> Reachability:
    """Return the join of the lattice: a value that may be any of these."""
    reaching = [value for value in values if value.reaches_something]
    if not reaching:
        return NOTHING
    return Reachability(min(value.nearest for value in reaching), max(value.depth for value in reaching))
