"""Which blocks were told: a node that restarts writes some of them again."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

MAX_RANGES: Final = 32


class SeenBlocks:
    """Numbers as ranges. When there are too many of them the lowest are joined: what lies between counts as seen."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges = list(ranges)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First and last of each range, ascending."""
        return self._ranges

    def add(self, number: int) -> bool:
        """Note a block; False when it was seen."""
        ranges = self._ranges
        after = bisect_right(ranges, (number, float("inf")))
        if after and number <= ranges[after - 1][1]:
            return False
        first = last = number
        if after < len(ranges) and ranges[after][0] == number + 1:
            last = ranges.pop(after)[1]
        if after and ranges[after - 1][1] == number - 1:
            after -= 1
            first = ranges.pop(after)[0]
        ranges.insert(after, (first, last))
        if len(ranges) > MAX_RANGES:
            ranges[:2] = [(ranges[0][0], ranges[1][1])]
        return True
