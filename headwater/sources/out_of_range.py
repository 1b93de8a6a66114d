"""Remembers the partitions that librdkafka has reported as out of range.

A partition is remembered until the source has moved its position.
"""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from headwater.native.librdkafka import PartitionError

RETRY_INTERVAL_S: Final = 5.0


class OutOfRangePartitions:
    """The partitions whose position does not exist in the topic.

    librdkafka has stopped reading them. Each partition has its own time of the next attempt to move it. `clock` returns
    monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._errors: dict[int, PartitionError] = {}
        self._retry_at: dict[int, float] = {}

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that are out of range."""
        return frozenset(self._errors)

    def add(self, error: PartitionError) -> None:
        """Add a partition for which librdkafka has reported this error."""
        self._errors[error.partition] = error

    def due(self, leaderless: Collection[int]) -> list[PartitionError]:
        """Return the errors of the partitions to move now.

        A partition without a leader has to wait for one.
        """
        now = self._clock()
        return [
            error
            for partition, error in self._errors.items()
            if partition not in leaderless and now >= self._retry_at.get(partition, now)
        ]

    def retry_later(self, partition: int) -> None:
        """Let the next attempt for a partition be due after RETRY_INTERVAL_S."""
        self._retry_at[partition] = self._clock() + RETRY_INTERVAL_S

    def remove(self, partitions: Iterable[int]) -> None:
        """Forget these partitions: they were moved, or they belong to another member now."""
        for partition in partitions:
            self._errors.pop(partition, None)
            self._retry_at.pop(partition, None)
