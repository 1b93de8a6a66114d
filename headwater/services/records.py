"""Reads some records of streams and outputs, to show them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import islice

from headwater.brokers.topic_history import LogRecord, TopicHistory
from headwater.model.access import KafkaAccess
from headwater.model.topic_record import TopicRecord
from headwater.services.newest_first import NewestFirst, first_chunk_size
from headwater.services.oldest_first import records_since
from headwater.services.topic_history_with_deadline import TopicHistoryWithDeadline
from headwater.services.viewable_topics import ViewableTopic

MAX_RECORDS = 1_000
DEFAULT_RECORDS = 10
MAX_BYTES = 8_000_000
"""The maximum size of the JSON of all records. A single record may be larger."""
TIMEOUT_S = 5.0
"""After this time, a read that needs a further chunk of records fails with BrokerUnavailable."""


class Records:
    """Reads the newest records of a topic, or its first records from a time on. Thread-safe.

    Args:
        histories: The history of the topics of each Kafka cluster; None is the installation's own cluster.
        clock: Returns monotonic seconds.
    """

    def __init__(self, histories: Mapping[KafkaAccess | None, TopicHistory], clock: Callable[[], float]) -> None:
        self._histories = histories
        self._clock = clock

    def read(self, topic: ViewableTopic, count: int, since: datetime | None) -> list[bytes]:
        """Return committed records as JSON objects, oldest first, MAX_BYTES of JSON at most.

        The records of each partition are in the order of their offsets. The partitions are merged by the timestamps of
        their records. May block for some seconds, see TopicHistoryWithDeadline. Raises NotFound when the topic does not
        exist yet, and BrokerUnavailable.

        Args:
            topic: The topic.
            count: The maximum number of records.
            since: The time of the first record; None for the newest records.
        """
        history = TopicHistoryWithDeadline(self._histories[topic.cluster], self._clock, TIMEOUT_S)
        ranges = history.ranges(topic.topic)
        if not ranges:
            raise topic.missing_error()
        first_chunk = first_chunk_size(2 * count, len(ranges))
        if since is None:
            ends = {partition: offsets.end for partition, offsets in ranges.items()}
            newest = NewestFirst(history, topic.topic, ends, ranges, first_chunk)
            return _items(islice(newest, count), topic)[::-1]
        return _items(islice(records_since(history, topic.topic, ranges, since, first_chunk), count), topic)


def _items(records: Iterable[LogRecord], topic: ViewableTopic) -> list[bytes]:
    """Return the JSON of as many of the first records as MAX_BYTES allows, and of at least one."""
    items: list[bytes] = []
    size = 0
    for record in records:
        read = to_topic_record(record)
        item = read.json_with_headers if topic.shows_headers else read.json
        size += len(item) + 1
        if items and size > MAX_BYTES:
            break
        items.append(item)
    return items


def to_topic_record(record: LogRecord) -> TopicRecord:
    """Return a record of a topic in the form in which it is shown."""
    timestamp_ms = None if record.timestamp < 0 else record.timestamp
    headers = tuple(record.headers.items())
    return TopicRecord(record.partition, record.offset, timestamp_ms, record.key, record.value, headers)
