"""Buffers the new records of one topic for one client."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from headwater.brokers import tail_reader
from headwater.model.topic_record import TopicRecord
from headwater.services.viewable_topics import ViewableTopic

MAX_RECORDS_PER_S: Final = 200
"""How many records a tail shows within any second."""
MAX_PENDING_BYTES: Final = 2_000_000
"""The maximum size of the records that wait for a client. A single record may be larger."""
SEND_INTERVAL_S: Final = 0.1
"""How long a connection waits before it sends the records that have arrived meanwhile."""
_INTERVALS_PER_S: Final = 10

EndReason = Literal["key_ended", "deployment_ended", "idle", "shutdown"] | tail_reader.EndReason

END_DETAILS: dict[EndReason, str] = {
    "key_ended": "The API key was revoked or has expired.",
    "deployment_ended": "The pipeline was torn down or deleted. Deploy it, and open the tail again.",
    "idle": "No record has arrived for a long time. Open the tail again to wait for further records.",
    "shutdown": "This process of the API is stopping. Open the tail again.",
    "topic_removed": "The topic was removed.",
    "broker_unavailable": "Kafka can't be read. Open the tail again later.",
}
"""Why a tail has ended, and what to do."""


class TailUpdate(NamedTuple):
    """The new records of a tail since the last update, or its end.

    Attributes:
        records: The records to show.
        skipped: How many records are not shown.
        end: Why the tail has ended; None while it is open. Nothing follows an end.
    """

    records: list[TopicRecord]
    skipped: int
    end: EndReason | None


class Tail:
    """Buffers the new records of a topic for one client. Thread-safe.

    It is a tail_reader.TailListener. The buffer is bounded in records per second, in records and in bytes. Every
    record that does not fit is counted as skipped, so a slow client delays nobody. Shown and skipped records together
    are all records.

    Args:
        topic: The topic.
        clock: Returns monotonic seconds.
    """

    def __init__(self, topic: ViewableTopic, clock: Callable[[], float]) -> None:
        self.topic = topic
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: list[TopicRecord] = []
        self._pending_bytes = 0
        self._skipped = 0
        self._end: EndReason | None = None
        self._last_record_at = clock()
        self._window = _OneSecondWindow()

    @property
    def last_record_at(self) -> float:
        """When the last record arrived, or when the tail was opened, in seconds of the clock."""
        return self._last_record_at

    def deliver(self, records: Sequence[TopicRecord], skipped: int) -> None:
        """See tail_reader.TailListener."""
        now = self._clock()
        with self._lock:
            self._last_record_at = now
            left = min(self._window.left(now), MAX_RECORDS_PER_S - len(self._pending))
            shown = self._fitting(records[: max(0, left)])
            self._window.add(now, len(shown))
            self._pending += shown
            self._skipped += len(records) - len(shown) + skipped

    def _fitting(self, records: Sequence[TopicRecord]) -> list[TopicRecord]:
        """Return the records that fit into the buffer, and add their size."""
        fitting = []
        for record in records:
            size = record.size
            if self._pending_bytes and self._pending_bytes + size > MAX_PENDING_BYTES:
                continue
            self._pending_bytes += size
            fitting.append(record)
        return fitting

    def end(self, reason: EndReason) -> None:
        """See tail_reader.TailListener. The first reason counts."""
        with self._lock:
            self._end = self._end or reason

    def take(self) -> TailUpdate:
        """Return the update since the last call, and remove its records from the buffer."""
        with self._lock:
            update = TailUpdate(self._pending, self._skipped, self._end)
            self._pending, self._pending_bytes, self._skipped = [], 0, 0
            return update


@dataclass(slots=True)
class _Interval:
    number: int
    count: int


class _OneSecondWindow:
    """Counts the records of the current interval, and of the second before it.

    An interval lasts SEND_INTERVAL_S. So no second has more than MAX_RECORDS_PER_S records, wherever it begins.
    """

    def __init__(self) -> None:
        self._intervals: deque[_Interval] = deque()

    def left(self, now: float) -> int:
        """Return how many records may follow in the current interval."""
        oldest = int(now * _INTERVALS_PER_S) - _INTERVALS_PER_S
        while self._intervals and self._intervals[0].number < oldest:
            self._intervals.popleft()
        return MAX_RECORDS_PER_S - sum(interval.count for interval in self._intervals)

    def add(self, now: float, count: int) -> None:
        """Count records of the current interval."""
        number = int(now * _INTERVALS_PER_S)
        if self._intervals and self._intervals[-1].number == number:
            self._intervals[-1].count += count
        else:
            self._intervals.append(_Interval(number, count))
