"""What came of numbered records, against what must come: checked output by output, in constant memory."""

import hashlib
from collections.abc import Callable

from tests.chaos.load import LAYOUTS, PARTITIONS, Layout

Place = tuple[int, int]  # place in the lane, output number


class Account:
    """One topic. wanted: what must be there of record n, in order.

    count: outputs, each once. repeats: further occurrences. wrong: outputs whose bytes or partition are not the wanted
    ones, also of repeats. inversions: outputs behind a later one of their lane. missing: places that were skipped.
    """

    def __init__(self, wanted: Callable[[int], list[bytes]], layout: Layout = LAYOUTS["kafka"]) -> None:
        self._wanted = wanted
        self._layout = layout
        self._next: list[Place] = [(0, 0)] * layout.lanes
        self._digests = [hashlib.blake2b() for _ in range(PARTITIONS)]
        self.missing: set[tuple[int, Place]] = set()
        self.count = self.repeats = self.wrong = self.inversions = 0

    def take(self, source: str, partition: int, value: bytes) -> None:
        """Note an output. source: its `headwater-src`; partition: where it was read."""
        name, _, output = source.rpartition("/")
        n, number = self._layout.number(name), int(output)
        home, place = n % self._layout.lanes, (n // self._layout.lanes, number)
        self._digests[partition].update(b"%b %b\n" % (source.encode(), value))
        self.wrong += self._wanted(n)[number : number + 1] != [value] or self._layout.partition(home) != partition
        if place >= self._next[home]:
            self._skip_to(home, place)
            self.count += 1
        elif (home, place) in self.missing:
            self.missing.discard((home, place))
            self.inversions += 1
            self.count += 1
        else:
            self.repeats += 1

    def _skip_to(self, lane: int, place: Place) -> None:
        """Note what should have come before this."""
        (offset, number), (end, before) = self._next[lane], place
        while offset < end:
            outputs = len(self._wanted(offset * self._layout.lanes + lane))
            self.missing.update((lane, (offset, i)) for i in range(number, outputs))
            offset, number = offset + 1, 0
        self.missing.update((lane, (end, i)) for i in range(number, before))
        self._next[lane] = (end, before + 1)

    @property
    def reached(self) -> int:
        """How many records are behind the last outputs."""
        return sum(offset + 1 for offset, _ in self._next)

    def complete(self, fed: int) -> bool:
        """True when everything came of the first `fed` records."""
        return not self.missing and not any(self._left(lane, fed, 1) for lane in range(self._layout.lanes))

    def lost(self, fed: int) -> int:
        """How many outputs of the first `fed` records did not come."""
        return len(self.missing) + sum(self._left(lane, fed, fed) for lane in range(self._layout.lanes))

    def _left(self, lane: int, fed: int, enough: int) -> int:
        """How many outputs must still come behind the last one; counted no further than `enough`."""
        offset, number = self._next[lane]
        left = 0
        while (n := offset * self._layout.lanes + lane) < fed and left < enough:
            left += max(0, len(self._wanted(n)) - number)
            offset, number = offset + 1, 0
        return left

    def digest(self) -> list[str]:
        """Of each partition: everything that came, repeats too, in its order."""
        return [digest.hexdigest() for digest in self._digests]
