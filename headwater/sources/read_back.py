"""What stands on topics already: read to their present ends, and no further."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headwater.brokers.client import ClientErrors, consumer_settings, unavailable
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

STALL_S: Final = 30.0
POLL_S: Final = 0.1
"""A batch that is not full waits this long."""
BATCH: Final = 1000

Starts = Callable[[Consumer, list[TopicPartition]], list[TopicPartition]]
"""Gives partitions the offsets to read from."""


class Kept(NamedTuple):
    """A record that is in a topic."""

    topic: str
    key: bytes | None
    value: bytes | None


def read_table(access: KafkaAccess, topic: str) -> dict[bytes, bytes]:
    """The last committed value of each key of a compacted topic. Raises BrokerUnavailable, also without the topic."""

    def starts(_: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.partition, OFFSET_BEGINNING) for p in partitions]

    table = {record.key: record.value for record in _read(access, [topic], starts)}
    return {key: value for key, value in table.items() if key is not None and value is not None}


def read_since(access: KafkaAccess, topics: Sequence[str], since_ms: int) -> Iterator[Kept]:
    """The committed records stamped at or after a time, in order within each partition.

    Raises BrokerUnavailable, also when one of the topics is not there.
    """

    def starts(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        times = [TopicPartition(p.topic, p.partition, max(0, since_ms)) for p in partitions]
        return consumer.offsets_for_times(times, STALL_S)

    return _read(access, topics, starts)


def _read(access: KafkaAccess, topics: Sequence[str], starts: Starts) -> Iterator[Kept]:
    errors = ClientErrors(access)
    with _consumer(access, errors) as consumer:
        partitions = [partition for topic in topics for partition in _partitions(consumer, topic)]
        consumer.assign(starts(consumer, partitions))
        unread = {(p.topic, p.partition) for p in partitions}
        while unread:
            for message in _batch(consumer, access, errors):
                if _is_end(message):
                    unread.discard((message.topic(), message.partition()))
                else:
                    yield _kept(message)


@contextmanager
def _consumer(access: KafkaAccess, errors: ClientErrors) -> Iterator[Consumer]:
    """One that joins no group, and is told where partitions end."""
    settings = consumer_settings(access, errors, "headwater.read-back") | {"enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    try:
        yield consumer
    except KafkaException as error:
        raise unavailable(error, access) from error
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    found = consumer.list_topics(topic, STALL_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return [TopicPartition(topic, number) for number in found.partitions]


def _batch(consumer: Consumer, access: KafkaAccess, errors: ClientErrors) -> list[Message]:
    """What comes next: one message at least."""
    deadline = time.monotonic() + STALL_S
    while time.monotonic() < deadline:
        errors.check()
        if messages := consumer.consume(BATCH, POLL_S):
            return messages
    raise BrokerUnavailable(f"Kafka at {access.bootstrap_servers} does not answer: topics could not be read.")


def _is_end(message: Message) -> bool:
    """Whether this tells of a partition's end, and is no record. Raises KafkaException when it tells of a failure."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def _kept(message: Message) -> Kept:
    topic = message.topic()
    assert topic is not None
    return Kept(topic, message.key(), message.value())
