"""What a value may reach of the objects that live on from record to record."""

from collections.abc import Iterable
from typing import Final, NamedTuple

UNKNOWN: Final = 8
"""The depth of what is not known, and of all that goes deeper."""


class Reach(NamedTuple):
    """near: how many members away the nearest object is that lives on; 0 is the value itself.

    deep: how many members away the farthest one may be, and one more. A value with the depth 0 reaches none: it is
    primitive, or this call made it.
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
