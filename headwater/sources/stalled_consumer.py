"""Detects partitions that the consumer has stopped reading, or that a transaction blocks.

librdkafka can stop reading a partition when a broker restarts (librdkafka issues 4492 and 5153). So another client
requests the end offsets of the partitions. A partition is stalled when it has readable records after its position, and
the consumer returns none of them although its queue is empty.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from headwater.brokers.topic_monitor import EndOffsetsRequest, TopicMonitor

CHECK_INTERVAL_S: Final = 2.0
MIN_CHECKS: Final = 2
MAX_CHECKS: Final = 32
"""How many consecutive checks must find a partition stalled before it is reported.

The number starts at MIN_CHECKS, doubles after each report up to MAX_CHECKS, and is reset by a record.
"""
BLOCKED_AFTER_S: Final = 15.0
"""How long an open transaction may block a partition before it is reported: as long as a worker's own may last."""


class StalledPartitions(NamedTuple):
    """A report of stalled partitions.

    Attributes:
        partitions: The partitions.
        reports: How many reports, this one included, came in a row without a record in between.
    """

    partitions: list[int]
    reports: int


class StalledConsumerDetector:
    """Compares the positions of a consumer with the end offsets of its partitions.

    A position is the next offset to read. `clock` returns monotonic seconds.
    """

    def __init__(self, monitor: TopicMonitor, clock: Callable[[], float] = time.monotonic) -> None:
        self._monitor = monitor
        self._clock = clock
        self._request: EndOffsetsRequest | None = None
        self._requested: dict[int, int] = {}
        """The positions at the time of the request."""
        self._was_queue_empty = False
        self._check_at = float("-inf")
        self._checks: dict[int, int] = {}
        self._reports = 0
        self._blocked: dict[int, tuple[int, float]] = {}
        """By partition, the last stable offset, and since when the partition is blocked at it."""

    def polled(self, *, has_records: bool) -> None:
        """Record a poll of the consumer.

        A poll without records means that the consumer's queue is empty.
        """
        if has_records:
            self._reports = 0
        else:
            self._was_queue_empty = True

    def check(self, positions: Mapping[int, int]) -> StalledPartitions | None:
        """Return the stalled partitions, if there are any. Never waits.

        `positions` has the positions of all partitions that are being read.
        """
        if self._request is None:
            self._send_request(positions)
            return None
        if not self._request.done():
            return None
        ends, self._request = self._request.result(), None
        unmoved = {p: ends[p] for p, position in self._requested.items() if p in ends and positions.get(p) == position}
        self._record_blocked(
            {
                p: end.last_stable
                for p, end in unmoved.items()
                if self._requested[p] == end.last_stable < end.high_watermark
            }
        )
        return self._count_checks({p for p, end in unmoved.items() if self._requested[p] < end.last_stable})

    def _send_request(self, positions: Mapping[int, int]) -> None:
        now = self._clock()
        if positions and now >= self._check_at:
            self._requested, self._was_queue_empty = dict(positions), False
            self._request, self._check_at = self._monitor.request_end_offsets([*positions]), now + CHECK_INTERVAL_S

    def _count_checks(self, behind: set[int]) -> StalledPartitions | None:
        """Return those of the partitions that enough consecutive checks have found to be behind."""
        if behind and not self._was_queue_empty:
            return None
        self._checks = {partition: self._checks.get(partition, 0) + 1 for partition in behind}
        needed = min(MAX_CHECKS, MIN_CHECKS << self._reports)
        stalled = [partition for partition, checks in self._checks.items() if checks >= needed]
        if not stalled:
            return None
        self._reports += 1
        self._checks.clear()
        return StalledPartitions(stalled, self._reports)

    def _record_blocked(self, last_stable_offsets: Mapping[int, int]) -> None:
        now, before = self._clock(), self._blocked
        self._blocked = {
            p: before[p] if before.get(p, (-1,))[0] == offset else (offset, now)
            for p, offset in last_stable_offsets.items()
        }

    def blocked_by_transaction(self) -> dict[int, int]:
        """Return the last stable offset of partitions that a transaction blocks.

        It has blocked them for BLOCKED_AFTER_S.
        """
        now = self._clock()
        return {p: offset for p, (offset, since) in self._blocked.items() if now - since >= BLOCKED_AFTER_S}

    def remove(self, partitions: Collection[int]) -> None:
        """Forget these partitions."""
        for partition in partitions:
            self._requested.pop(partition, None)
            self._checks.pop(partition, None)
            self._blocked.pop(partition, None)
