"""Detects partitions that the consumer has stopped reading, or that a transaction blocks.

librdkafka can stop reading a partition when a broker restarts (librdkafka issues 4492 and 5153). So another client
requests the end offsets of the partitions. A partition is behind when it has readable records after its position while
the consumer's queue is empty, so that the consumer should be fetching them. It is stalled when enough consecutive
checks find it behind.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from headwater.brokers.topic_monitor import EndOffsetsRequest, TopicMonitor

CHECK_INTERVAL_S: Final = 2.0
MIN_CHECKS: Final = 2
MAX_CHECKS: Final = 32
"""How many consecutive checks must find a partition behind before it is reported.

The number starts at MIN_CHECKS, doubles after each report up to MAX_CHECKS, and is reset by a record.
"""
BLOCKED_AFTER_S: Final = 15.0
"""How long an open transaction may block a partition before it is reported: the `transaction.timeout.ms` of workers."""


class StalledPartitions(NamedTuple):
    """A report of stalled partitions.

    Attributes:
        partitions: The stalled partitions.
        consecutive_reports: The number of reports since the consumer last returned a record, including this report.
    """

    partitions: list[int]
    consecutive_reports: int


class StalledConsumerDetector:
    """Detects a stalled consumer by its positions and the end offsets of its partitions.

    A position is the next offset to read. `clock` returns monotonic seconds.
    """

    def __init__(self, monitor: TopicMonitor, clock: Callable[[], float] = time.monotonic) -> None:
        self._monitor = monitor
        self._clock = clock
        self._request: EndOffsetsRequest | None = None
        self._requested_positions: dict[int, int] = {}
        """The positions of the consumer at the time of the request."""
        self._was_queue_empty = False
        """Whether the consumer's queue was empty at some time since the request."""
        self._check_at = float("-inf")
        self._checks: dict[int, int] = {}
        """By partition, how many consecutive checks have found that it has records after its position."""
        self._consecutive_reports = 0
        self._blocked: dict[int, tuple[int, float]] = {}
        """By partition, the last stable offset at which a transaction blocks it, and since when."""

    def on_polled(self, *, has_records: bool) -> None:
        """Take a poll of the consumer into account.

        A poll without records means that the consumer's queue is empty.
        """
        if has_records:
            self._consecutive_reports = 0
        else:
            self._was_queue_empty = True

    def check(self, positions: Mapping[int, int]) -> StalledPartitions | None:
        """Send a request for end offsets, or evaluate its response. Never waits.

        Returns the stalled partitions, if there are any. `positions` has the positions of all partitions that are being
        read.
        """
        if self._request is None:
            self._send_request(positions)
            return None
        if not self._request.done():
            return None
        ends, self._request = self._request.result(), None
        unmoved = {p for p, position in self._requested_positions.items() if positions.get(p) == position} & ends.keys()
        at_stable_end = {p: ends[p] for p in unmoved if positions[p] == ends[p].last_stable}
        self._record_blocked({p: end.last_stable for p, end in at_stable_end.items() if end.has_open_transaction})
        return self._count_check({p for p in unmoved if positions[p] < ends[p].last_stable})

    def _send_request(self, positions: Mapping[int, int]) -> None:
        now = self._clock()
        if positions and now >= self._check_at:
            self._requested_positions, self._was_queue_empty = dict(positions), False
            self._request, self._check_at = self._monitor.request_end_offsets([*positions]), now + CHECK_INTERVAL_S

    def _count_check(self, behind: set[int]) -> StalledPartitions | None:
        """Count one more check for the partitions in `behind`, and return the stalled partitions.

        A partition is stalled when enough consecutive checks have found it behind.
        """
        if behind and not self._was_queue_empty:
            return None
        self._checks = {partition: self._checks.get(partition, 0) + 1 for partition in behind}
        required_checks = min(MAX_CHECKS, MIN_CHECKS << self._consecutive_reports)
        stalled = [partition for partition, checks in self._checks.items() if checks >= required_checks]
        if not stalled:
            return None
        self._consecutive_reports += 1
        self._checks.clear()
        return StalledPartitions(stalled, self._consecutive_reports)

    def _record_blocked(self, last_stable_offsets: Mapping[int, int]) -> None:
        now, previous = self._clock(), self._blocked
        self._blocked = {}
        for partition, offset in last_stable_offsets.items():
            is_unchanged = partition in previous and previous[partition][0] == offset
            self._blocked[partition] = previous[partition] if is_unchanged else (offset, now)

    def blocked_by_transaction(self) -> dict[int, int]:
        """Return the last stable offset of each partition that a transaction blocks.

        The transaction has blocked the partition for BLOCKED_AFTER_S or longer.
        """
        now = self._clock()
        return {p: offset for p, (offset, since) in self._blocked.items() if now - since >= BLOCKED_AFTER_S}

    def remove(self, partitions: Collection[int]) -> None:
        """Forget these partitions."""
        for partition in partitions:
            self._requested_positions.pop(partition, None)
            self._checks.pop(partition, None)
            self._blocked.pop(partition, None)
