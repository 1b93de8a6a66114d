"""The newest records of some topics, from a time on."""

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.brokers.client import ClientErrors, consumer_settings, unavailable
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

STALL_S: Final = 30.0
POLL_S: Final = 0.1
"""A batch that is not full waits this long."""
BATCH: Final = 1000


class Kept(NamedTuple):
    """A record that is in a topic."""

    topic: str
    key: bytes
    value: bytes


def read_since(access: KafkaAccess, topics: Sequence[str], since_ms: int) -> Iterator[Kept]:
    """The committed records stamped at or after a time, up to the topics' present ends; those with a key and a value.

    In order within each partition. Raises BrokerUnavailable.
    """
    errors = ClientErrors(access)
    settings = consumer_settings(access, errors, "headwater.recent") | {"enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    try:
        known = consumer.list_topics(timeout=STALL_S).topics
        times = [
            TopicPartition(topic, number, max(0, since_ms)) for topic in topics for number in known[topic].partitions
        ]
        consumer.assign(consumer.offsets_for_times(times, STALL_S))
        yield from _read(consumer, len(times), access, errors)
    except KafkaException as error:
        raise unavailable(error, access) from error
    finally:
        consumer.close()


def _read(
    consumer: confluent_kafka.Consumer, partitions: int, access: KafkaAccess, errors: ClientErrors
) -> Iterator[Kept]:
    heard = time.monotonic()
    while partitions:
        errors.check()
        messages = consumer.consume(BATCH, POLL_S)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > STALL_S:
            raise BrokerUnavailable(f"Kafka at {access.bootstrap_servers} does not answer: topics could not be read.")
        for message in messages:
            error, topic, key, value = message.error(), message.topic(), message.key(), message.value()
            if error is None:
                if isinstance(topic, str) and isinstance(key, bytes) and isinstance(value, bytes):
                    yield Kept(topic, key, value)
            elif error.code() == KafkaError._PARTITION_EOF:
                partitions -= 1
            else:
                raise KafkaException(error)
