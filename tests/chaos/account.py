"""What came of numbered records, against what must come: checked output by output, in constant memory."""

import hashlib
from collections.abc import Callable

from tests.chaos.load import PARTITIONS

Place = tuple[int, int]  # source offset, output number


class Account:
    """One topic. wanted: what must be there of record n, in order.

    count: outputs, each once. repeats: further occurrences. wrong: outputs whose bytes are not the wanted ones, also
    of repeats. inversions: outputs behind a later one of their partition. missing: places that were skipped so far.
    """

    def __init__(self, wanted: Callable[[int], list[bytes]]) -> None:
        self._wanted = wanted
        self._next: list[Place] = [(0, 0)] * PARTITIONS
        self._digests = [hashlib.blake2b() for _ in range(PARTITIONS)]
        self.missing: set[tuple[int, Place]] = set()
        self.count = self.repeats = self.wrong = self.inversions = 0

    def take(self, source: str, partition: int, value: bytes) -> None:
        """Note an output. source: its `headwater-src`; partition: where it was read."""
        _, *numbers = source.rsplit("/", 3)
        home, offset, number = map(int, numbers)
        place = offset, number
        self._digests[partition].update(b"%b %b\n" % (source.encode(), value))
        wanted = self._wanted(offset * PARTITIONS + home)
        self.wrong += wanted[number : number + 1] != [value] or home != partition
        if place >= self._next[home]:
            self._skip_to(home, place)
            self.count += 1
        elif (home, place) in self.missing:
            self.missing.discard((home, place))
            self.inversions += 1
            self.count += 1
        else:
            self.repeats += 1

    def _skip_to(self, partition: int, place: Place) -> None:
        """Note what should have come before this."""
        (offset, number), (end, before) = self._next[partition], place
        while offset < end:
            outputs = len(self._wanted(offset * PARTITIONS + partition))
            self.missing.update((partition, (offset, i)) for i in range(number, outputs))
            offset, number = offset + 1, 0
        self.missing.update((partition, (end, i)) for i in range(number, before))
        self._next[partition] = (end, before + 1)

    @property
    def reached(self) -> int:
        """How many records are behind the last outputs."""
        return sum(offset + 1 for offset, _ in self._next)

    def complete(self, fed: int) -> bool:
        """True when everything came of the first `fed` records."""
        return not self.missing and not any(self._left(partition, fed, 1) for partition in range(PARTITIONS))

    def lost(self, fed: int) -> int:
        """How many outputs of the first `fed` records did not come."""
        return len(self.missing) + sum(self._left(partition, fed, fed) for partition in range(PARTITIONS))

    def _left(self, partition: int, fed: int, enough: int) -> int:
        """How many outputs must still come behind the last one; counted no further than `enough`."""
        offset, number = self._next[partition]
        left = 0
        while (n := offset * PARTITIONS + partition) < fed and left < enough:
            left += max(0, len(self._wanted(n)) - number)
            offset, number = offset + 1, 0
        return left

    def digest(self) -> list[str]:
        """Of each partition: everything that came, repeats too, in its order."""
        return [digest.hexdigest() for digest in self._digests]
