"""Reads the committed records that are in topics now, up to the end of each partition.

The end is the high watermark. Records before it may belong to open transactions, and an open transaction blocks all
later records. So the reader waits until these transactions end. This also covers the last transaction of the reader's
own process: Kafka acknowledges a commit before its markers are in the partitions.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Final, NamedTuple, cast

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import admin_settings, consumer_settings
from headwater.brokers.offsets import EARLIEST, LATEST, TopicPartitionKey, list_offsets
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess

NEXT_RECORD_TIMEOUT_S: Final = 30.0
"""How long to wait for the next record.

The open transaction of a killed process lasts 15 s, plus up to 10 s until the broker's next check.
"""
REQUEST_TIMEOUT_S: Final = 30.0
MAX_RECORDS_PER_POLL: Final = 1000
POLL_S: Final = 0.1
"""How long a poll waits for MAX_RECORDS_PER_POLL records."""


class CommittedRecord(NamedTuple):
    """A committed record, without its position."""

    topic: str
    key: bytes | None
    value: bytes | None


def read_table(access: KafkaAccess, topic: str, stop: Event | None = None) -> dict[bytes, bytes]:
    """Return the last committed value of each key of a compacted topic.

    Raises BrokerUnavailable, also when the topic does not exist, or when `stop` is set.
    """
    table = {record.key: record.value for record in _read(access, [topic], EARLIEST, stop)}
    return {key: value for key, value in table.items() if key is not None and value is not None}


def read_since(
    access: KafkaAccess, topics: Sequence[str], since_ms: int, stop: Event | None = None
) -> Iterator[CommittedRecord]:
    """Yield the committed records of topics from a time on, in order per partition.

    In each partition, reading begins at the first record with a timestamp at or after `since_ms`. Later records are
    yielded whatever their timestamps are. Raises BrokerUnavailable, also when one of the topics does not exist, or when
    `stop` is set.
    """
    return _read(access, topics, OffsetSpec.for_timestamp(max(0, since_ms)), stop)


def _read(
    access: KafkaAccess, topics: Sequence[str], start: OffsetSpec, stop: Event | None
) -> Iterator[CommittedRecord]:
    """Yield the committed records of topics from `start` on, up to the current ends."""
    errors = ClientErrors(access)
    with _consumer(access, errors) as consumer:
        admin = AdminClient(admin_settings(access, errors))
        partitions = [partition for topic in topics for partition in _partitions(consumer, topic)]
        # The ends are requested first: records that are appended after this request need not be read.
        ends = _offsets(admin, partitions, LATEST)
        starts = _offsets(admin, partitions, start)
        unread_ends = {key: ends[key] for key, first in starts.items() if 0 <= first < ends[key]}
        consumer.assign([TopicPartition(*key, starts[key]) for key in unread_ends])
        while unread_ends:
            for message in _next_messages(consumer, access, errors, unread_ends, stop):
                key, next_offset = _partition_key(message), _next_offset(message)
                if key not in unread_ends:
                    continue
                if message.error() is None:
                    yield _record(message)
                if next_offset >= unread_ends[key]:
                    del unread_ends[key]
                    # New records of this partition are not needed, and would delay the other partitions.
                    consumer.pause([TopicPartition(*key)])


def _offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartitionKey, int]:
    """Return an offset of each partition at isolation level read_uncommitted.

    The offset is a negative number when the partition has no such offset.
    """
    return list_offsets(admin, dict.fromkeys(partitions, spec), IsolationLevel.READ_UNCOMMITTED, REQUEST_TIMEOUT_S)


@contextmanager
def _consumer(access: KafkaAccess, errors: ClientErrors) -> Iterator[Consumer]:
    """Create a consumer that joins no group and reports the ends of partitions."""
    settings = consumer_settings(access, errors, "headwater.read-back") | {"enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    try:
        yield consumer
    except KafkaException as error:
        consumer.poll(0)
        errors.check()
        raise broker_unavailable_error(error, access) from error
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    described = consumer.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    return [TopicPartition(topic, number) for number in described.partitions]


def _next_messages(
    consumer: Consumer,
    access: KafkaAccess,
    errors: ClientErrors,
    unread_partitions: Iterable[TopicPartitionKey],
    stop: Event | None,
) -> list[Message]:
    """Return the next messages, at least one. A message is a record or the end of a partition."""
    deadline = time.monotonic() + NEXT_RECORD_TIMEOUT_S
    while time.monotonic() < deadline:
        errors.check()
        if stop is not None and stop.is_set():
            raise BrokerUnavailable("Reading was stopped before it reached the end.")
        if messages := consumer.consume(MAX_RECORDS_PER_POLL, POLL_S):
            return messages
    servers, topics = access.bootstrap_servers, ", ".join(sorted({topic for topic, _ in unread_partitions}))
    raise BrokerUnavailable(
        f"Kafka at {servers} returned no further records of {topics} for {NEXT_RECORD_TIMEOUT_S:g} s: it does not "
        "answer, or a transaction is open there."
    )


def _next_offset(message: Message) -> int:
    """Return the offset after a record, or the end offset of an end-of-partition event.

    Raises KafkaException for an error.
    """
    error, offset = message.error(), cast("int", message.offset())
    if error is None:
        return offset + 1
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return offset


def _partition_key(message: Message) -> TopicPartitionKey:
    return cast("str", message.topic()), cast("int", message.partition())


def _record(message: Message) -> CommittedRecord:
    return CommittedRecord(cast("str", message.topic()), message.key(), message.value())
