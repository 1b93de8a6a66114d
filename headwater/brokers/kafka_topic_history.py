"""Reads records of topics with pooled consumers, which join no group."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Any, Final, cast

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from headwater.brokers.admin_connection import POLLER, AdminConnection
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.known_brokers import KnownBrokers
from headwater.brokers.offsets import EARLIEST, LATEST, list_offsets
from headwater.brokers.topic_history import CALL_TIMEOUT_S, LogChunk, LogRecord, OffsetRange, record_bytes
from headwater.brokers.topic_partitions import partition_numbers
from headwater.errors import BrokerUnavailable, TopicMissing
from headwater.model.access import KafkaAccess

UNUSED_GROUP_ID: Final = "wrk-readers"
"""The `group.id` of consumers that never join a group. librdkafka requires one all the same.

It has the prefix `wrk-`, because Headwater's user has rights on the groups with this prefix on every cluster (see
docs/external_kafka.md, and docs/stream_bindings.md for other clusters).
"""
MAX_CONSUMERS: Final = 4
"""How many reads may run at once. A further read waits."""
REQUEST_TIMEOUT_S: Final = 5.0
"""How long a request for partitions or offsets may take."""
MAX_RECORDS_PER_POLL: Final = 2_000
POLL_S: Final = 0.01
"""How long a poll waits for MAX_RECORDS_PER_POLL records. A read may last up to this much longer than necessary."""
_SHORT_READ_SETTINGS: Final = {
    "enable.partition.eof": True,
    # Retention may remove the start of a range just before it is read.
    "auto.offset.reset": "earliest",
    # Reads are short, so records after their end are fetched in vain.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 8 << 10,
    "max.partition.fetch.bytes": 512 << 10,
    "fetch.wait.max.ms": 10,
}


class _PooledConsumer:
    """A consumer, the errors that it reports, and whether it has brokers."""

    def __init__(self, access: KafkaAccess) -> None:
        self.errors = ClientErrors(access)
        self.brokers = KnownBrokers()
        settings = consumer_settings(access, self.errors, UNUSED_GROUP_ID) | _SHORT_READ_SETTINGS
        self.client: Consumer = confluent_kafka.Consumer(settings | self.brokers.settings())


class KafkaTopicHistory:
    """Implements brokers.topic_history.TopicHistory."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._slots = BoundedSemaphore(MAX_CONSUMERS)
        self._lock = Lock()
        self._idle: list[_PooledConsumer] = []
        self._connection = AdminConnection(access)
        POLLER.add(self)

    def ranges(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, OffsetRange]:
        """See TopicHistory."""
        deadline = time.monotonic() + timeout_s
        with self._connection.translated_errors():
            partitions = self._partitions(topic, deadline)
            ends, starts = (self._offsets(topic, partitions, spec, deadline) for spec in (LATEST, EARLIEST))
        return {
            partition: OffsetRange(start, max(start, ends.get(partition, start))) for partition, start in starts.items()
        }

    def offsets_since(self, topic: str, time_ms: int, timeout_s: float = CALL_TIMEOUT_S) -> Mapping[int, int]:
        """See TopicHistory."""
        deadline = time.monotonic() + timeout_s
        with self._connection.translated_errors():
            partitions = self._partitions(topic, deadline)
            offsets = self._offsets(topic, partitions, OffsetSpec.for_timestamp(max(0, time_ms)), deadline)
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def _partitions(self, topic: str, deadline: float) -> list[int]:
        """Return the partitions of a topic; none when the topic does not exist."""
        try:
            return partition_numbers(self._connection.client, topic, _request_timeout_s(deadline))
        except TopicMissing:
            return []

    def _offsets(self, topic: str, partitions: Sequence[int], spec: OffsetSpec, deadline: float) -> dict[int, int]:
        specs = {TopicPartition(topic, partition): spec for partition in partitions}
        offsets = list_offsets(
            self._connection.client, specs, IsolationLevel.READ_COMMITTED, _request_timeout_s(deadline)
        )
        return {partition: offset for (_, partition), offset in offsets.items()}

    def read(
        self,
        topic: str,
        ranges: Mapping[int, OffsetRange],
        max_bytes: int,
        timeout_s: float = CALL_TIMEOUT_S,
        *,
        with_values: bool = True,
        with_headers: bool = True,
    ) -> Mapping[int, LogChunk]:
        """See TopicHistory."""
        reads = {
            number: _PartitionRead(each, max_bytes, with_values=with_values, with_headers=with_headers)
            for number, each in ranges.items()
            if each.start < each.end
        }
        deadline = time.monotonic() + timeout_s
        if reads:
            with self._connection.translated_errors(), self._consumer(timeout_s) as consumer:
                _read_all(consumer, self._access, topic, reads, deadline)
        return {number: read.chunk() for number, read in reads.items()}

    @contextmanager
    def _consumer(self, timeout_s: float) -> Iterator[_PooledConsumer]:
        """Take a consumer from the pool. After an error, the consumer is closed.

        Raises BrokerUnavailable when other reads use all consumers for `timeout_s` seconds.
        """
        if not self._slots.acquire(timeout=timeout_s):
            raise BrokerUnavailable(
                f"Other requests have used all {MAX_CONSUMERS} readers of Kafka at {self._access.bootstrap_servers} "
                f"for {timeout_s:.3g} s. Send the same request again."
            )
        try:
            with self._lock:
                consumer = self._idle.pop() if self._idle else None
            consumer = consumer or _PooledConsumer(self._access)
            try:
                yield consumer
                consumer.client.unassign()
            except BaseException:
                consumer.client.close()
                raise
            with self._lock:
                self._idle.append(consumer)
        finally:
            self._slots.release()

    def poll_idle(self) -> None:
        """Handle the events that librdkafka has queued for the idle consumers.

        Closes the consumers that have lost all brokers. Never waits.
        """
        with self._lock:
            for consumer in self._idle:
                consumer.client.poll(0)
            lost = [consumer for consumer in self._idle if consumer.brokers.are_lost]
            self._idle = [consumer for consumer in self._idle if not consumer.brokers.are_lost]
        for consumer in lost:
            consumer.client.close()

    def close(self) -> None:
        """Close the idle consumers, at the end of the process."""
        with self._lock:
            idle, self._idle = self._idle, []
        for consumer in idle:
            consumer.client.close()


class _PartitionRead:
    """The records of one partition that a read has collected so far."""

    def __init__(self, offsets: OffsetRange, max_bytes: int, *, with_values: bool, with_headers: bool) -> None:
        self._with_values, self._with_headers = with_values, with_headers
        self._start, self.end = offsets
        self._max_bytes = max_bytes
        self._bytes = 0
        self._records: deque[LogRecord] = deque()

    def add(self, message: Message, offset: int) -> None:
        """Add a record, and remove the oldest ones when the records are too large."""
        record = _record(message, offset, with_value=self._with_values, with_headers=self._with_headers)
        self._records.append(record)
        self._bytes += record_bytes(record)
        while self._bytes > self._max_bytes and len(self._records) > 1:
            self._bytes -= record_bytes(self._records.popleft())
            self._start = self._records[0].offset

    def chunk(self) -> LogChunk:
        """Return the collected records."""
        return LogChunk(self._start, list(self._records))

    @property
    def start(self) -> int:
        """The offset from which the collected records are complete."""
        return self._start


def _request_timeout_s(deadline: float) -> float:
    """Return how long a request may take. librdkafka needs at least a millisecond."""
    return min(REQUEST_TIMEOUT_S, max(0.01, deadline - time.monotonic()))


def _read_all(
    consumer: _PooledConsumer, access: KafkaAccess, topic: str, reads: Mapping[int, _PartitionRead], deadline: float
) -> None:
    """Read until every partition has reached its end. Raises BrokerUnavailable at the deadline."""
    unfinished, unread = set(reads), sum(read.end - read.start for read in reads.values())
    consumer.client.assign([TopicPartition(topic, number, read.start) for number, read in reads.items()])
    while unfinished:
        messages = consumer.client.consume(max(1, min(unread, MAX_RECORDS_PER_POLL)), POLL_S)
        unread -= len(messages)
        consumer.errors.check()
        if time.monotonic() >= deadline:
            raise BrokerUnavailable(
                f"Kafka at {access.bootstrap_servers} did not return the records of {topic} in time. Send the same "
                "request again."
            )
        for message in messages:
            partition = cast("int", message.partition())
            if message.topic() == topic and partition in unfinished and _add_message(message, reads[partition]):
                unfinished.discard(partition)
                if unfinished:  # further records of this partition would delay the others
                    # A pause would outlast the assignment, and the next read of the partition would get nothing.
                    consumer.client.incremental_unassign([TopicPartition(topic, partition)])


def _add_message(message: Message, read: _PartitionRead) -> bool:
    """Add a message to the read of its partition.

    Returns whether the read has reached its end. Raises KafkaException for an error.
    """
    error = message.error()
    if error is None:
        offset = cast("int", message.offset())
        if read.start <= offset < read.end:
            read.add(message, offset)
        return offset >= read.end - 1
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True


def _record(message: Message, offset: int, *, with_value: bool, with_headers: bool) -> LogRecord:
    headers = cast("Any", message.headers() if with_headers else None)
    key, value = cast("Any", message.key()), cast("Any", message.value()) if with_value else None
    return LogRecord(
        cast("int", message.partition()), offset, message.timestamp()[1], key, value, dict(headers) if headers else {}
    )
