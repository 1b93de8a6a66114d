"""Compares the outputs of numbered records with the expected outputs.

It needs constant memory, because it compares them one by one.
"""

import hashlib
from collections.abc import Callable

from tests.chaos.load import LAYOUTS, PARTITIONS, Layout

OutputPosition = tuple[int, int]
"""The index of a record in its lane, and the number of an output among the record's outputs."""


class OutputVerifier:
    """Checks the outputs on one topic.

    `expected` returns the expected outputs of record n, in order.

    Attributes:
        count: The number of distinct outputs.
        repeats: The number of further occurrences of outputs.
        wrong: The number of outputs, repeats included, with unexpected bytes or on an unexpected partition.
        inversions: The number of outputs that came after a later output of their lane.
        missing: The lane and position of each output that was skipped and has not come yet.
    """

    def __init__(self, expected: Callable[[int], list[bytes]], layout: Layout = LAYOUTS["kafka"]) -> None:
        self._expected = expected
        self._layout = layout
        self._next: list[OutputPosition] = [(0, 0)] * layout.lanes
        self._digests = [hashlib.blake2b() for _ in range(PARTITIONS)]
        self.missing: set[tuple[int, OutputPosition]] = set()
        self.count = self.repeats = self.wrong = self.inversions = 0

    def add(self, source: str, partition: int, value: bytes) -> None:
        """Check an output with this `headwater-src` header, which was read from this partition."""
        record_name, _, output = source.rpartition("/")
        n, number = self._layout.number(record_name), int(output)
        lane, position = n % self._layout.lanes, (n // self._layout.lanes, number)
        self._digests[partition].update(b"%b %b\n" % (source.encode(), value))
        self.wrong += self._expected(n)[number : number + 1] != [value] or self._layout.partition(lane) != partition
        if position >= self._next[lane]:
            self._skip_to(lane, position)
            self.count += 1
        elif (lane, position) in self.missing:
            self.missing.discard((lane, position))
            self.inversions += 1
            self.count += 1
        else:
            self.repeats += 1

    def _skip_to(self, lane: int, position: OutputPosition) -> None:
        """Mark the outputs between the last output of the lane and this position as missing."""
        (offset, number), (end, before) = self._next[lane], position
        while offset < end:
            outputs = len(self._expected(offset * self._layout.lanes + lane))
            self.missing.update((lane, (offset, i)) for i in range(number, outputs))
            offset, number = offset + 1, 0
        self.missing.update((lane, (end, i)) for i in range(number, before))
        self._next[lane] = (end, before + 1)

    @property
    def reached(self) -> int:
        """The number of records up to the last output of each lane."""
        return sum(offset + 1 for offset, _ in self._next)

    def complete(self, fed: int) -> bool:
        """Return whether all outputs of the first `fed` records have come."""
        return not self.missing and not any(self._left(lane, fed, 1) for lane in range(self._layout.lanes))

    def lost(self, fed: int) -> int:
        """Return how many outputs of the first `fed` records have not come."""
        return len(self.missing) + sum(self._left(lane, fed, fed) for lane in range(self._layout.lanes))

    def _left(self, lane: int, fed: int, enough: int) -> int:
        """Count the expected outputs after the last one of a lane; stop counting at `enough`."""
        offset, number = self._next[lane]
        left = 0
        while (n := offset * self._layout.lanes + lane) < fed and left < enough:
            left += max(0, len(self._expected(n)) - number)
            offset, number = offset + 1, 0
        return left

    def digest(self) -> list[str]:
        """Return a digest of each partition, over all outputs in the order of arrival.

        Repeats are included.
        """
        return [digest.hexdigest() for digest in self._digests]
