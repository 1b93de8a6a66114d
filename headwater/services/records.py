"""Reads some records of streams and outputs, to show them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice

from headwater.brokers.topic_history import LogChunk, LogRecord, OffsetRange, TopicHistory
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.read_record import ReadRecord
from headwater.services.newest_first import NewestFirst
from headwater.services.oldest_first import OldestFirst
from headwater.services.readable_topics import ReadableTopic

MAX_RECORDS = 1_000
DEFAULT_RECORDS = 10
MAX_BYTES = 8_000_000
"""The maximum size of the JSON of all records. A single record may be larger."""
TIMEOUT_S = 5.0
"""After this time, a read reads no further chunk of records."""
MIN_CHUNK = 16
"""How many offsets of a partition are read at first, or more when more records are wanted."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Records:
    """Reads the newest records of a topic, or its first records from a time on. Thread-safe.

    Args:
        histories: The history of the topics of each Kafka cluster; None is the installation's own cluster.
        clock: Returns monotonic seconds.
    """

    def __init__(self, histories: Mapping[KafkaAccess | None, TopicHistory], clock: Callable[[], float]) -> None:
        self._histories = histories
        self._clock = clock

    def read(self, topic: ReadableTopic, count: int, since: datetime | None) -> list[bytes]:
        """Return committed records as JSON objects, oldest first, MAX_BYTES of JSON at most.

        The records of each partition are in the order of their offsets. The partitions are merged by the timestamps of
        their records. May block for some seconds. Raises NotFound when the topic does not exist yet, and
        BrokerUnavailable.

        Args:
            topic: The topic.
            count: The maximum number of records.
            since: The time of the first record; None for the newest records.
        """
        history = _TimedHistory(self._histories[topic.cluster], self._clock)
        ranges = history.ranges(topic.topic)
        if not ranges:
            raise topic.missing_error()
        first_chunk = max(MIN_CHUNK, 2 * count // len(ranges))
        if since is None:
            ends = {number: offsets.end for number, offsets in ranges.items()}
            newest = NewestFirst(history, topic.topic, ends, ranges, first_chunk)
            return _items(islice(newest, count), topic)[::-1]
        starts = history.offsets_since(topic.topic, _epoch_ms(since))
        # Records may have been appended between the two requests.
        unread = {n: OffsetRange(start, ranges[n].end) for n, start in starts.items() if n in ranges}
        return _items(islice(OldestFirst(history, topic.topic, unread, first_chunk), count), topic)


class _TimedHistory:
    """A TopicHistory that raises BrokerUnavailable when a read begins after TIMEOUT_S."""

    def __init__(self, history: TopicHistory, clock: Callable[[], float]) -> None:
        self._history = history
        self._clock = clock
        self._deadline = clock() + TIMEOUT_S
        self.ranges = history.ranges
        self.offsets_since = history.offsets_since

    def read(
        self,
        topic: str,
        ranges: Mapping[int, OffsetRange],
        max_bytes: int,
        *,
        with_values: bool = True,
        with_headers: bool = True,
    ) -> Mapping[int, LogChunk]:
        """See TopicHistory."""
        if self._clock() > self._deadline:
            raise BrokerUnavailable(
                f"The records of {topic} were not found within {TIMEOUT_S:g} s: Kafka is slow, or compaction or "
                "aborted transactions have left few records."
            )
        return self._history.read(topic, ranges, max_bytes, with_values=with_values, with_headers=with_headers)


def _epoch_ms(time: datetime) -> int:
    """Return a time in milliseconds since the epoch.

    The time is rounded up, so that an earlier record is not included.
    """
    return -((_EPOCH - time) // timedelta(milliseconds=1))


def _items(records: Iterable[LogRecord], topic: ReadableTopic) -> list[bytes]:
    """Return the JSON of as many of the first records as MAX_BYTES allows, and of at least one."""
    items: list[bytes] = []
    size = 0
    for record in records:
        read = _read_record(record)
        item = read.json_with_headers if topic.shows_headers else read.json
        size += len(item) + 1
        if items and size > MAX_BYTES:
            break
        items.append(item)
    return items


def _read_record(record: LogRecord) -> ReadRecord:
    timestamp_ms = None if record.timestamp < 0 else record.timestamp
    headers = tuple(record.headers.items())
    return ReadRecord(record.partition, record.offset, timestamp_ms, record.key, record.value, headers)
