"""What a value may reach of the objects that live on from record to record."""

from collections.abc import Iterable
from typing import Final, NamedTuple

UNKNOWN: Final = 8
"""The largest `deep`: that of values of which nothing is known, and of all that are deeper."""


class Reach(NamedTuple):
    """How far from a value the objects are that live on, counted in members: 0 is the value itself, 1 its members.

    Attributes:
        near: The distance of the nearest such object.
        deep: The largest distance of one, plus 1. It is 0 for a value that reaches none: a primitive, or an object that
            this call of `process` made.
    """

    near: int
    deep: int

    @property
    def is_kept(self) -> bool:
        """Whether the value itself lives on, so that writing to it is seen by later records."""
        return self.deep > 0 and self.near == 0

    def part(self) -> "Reach":
        """A member of the value."""
        deep = self.deep if self.deep == UNKNOWN else self.deep - 1
        return Reach(max(0, self.near - 1), deep) if deep > 0 else NOTHING

    def held(self) -> "Reach":
        """A new object that holds the value."""
        return Reach(min(self.near + 1, UNKNOWN - 1), min(self.deep + 1, UNKNOWN)) if self.deep else NOTHING

    def kept(self) -> "Reach":
        """An object that lives on and holds the value."""
        return Reach(0, min(self.deep + 1, UNKNOWN))


NOTHING: Final = Reach(0, 0)
ANYTHING: Final = Reach(0, UNKNOWN)


def join(values: Iterable[Reach]) -> Reach:
    """One of the values, whichever it is."""
    reaching = [value for value in values if value.deep]
    if not reaching:
        return NOTHING
    return Reach(min(value.near for value in reaching), max(value.deep for value in reaching))
