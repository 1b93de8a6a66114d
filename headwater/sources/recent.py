"""The newest records of a topic, from a time on."""

import time
from collections.abc import Iterator
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.brokers.client import ClientErrors, consumer_settings, unavailable
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

STALL_S: Final = 30.0
POLL_S: Final = 0.5
BATCH: Final = 1000


def read_since(access: KafkaAccess, topic: str, since_ms: int) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of the committed records stamped at or after a time, up to the topic's present end.

    In order within each partition; those without a key or a value are left out. Raises BrokerUnavailable.
    """
    errors = ClientErrors(access)
    settings = consumer_settings(access, errors, "headwater.recent") | {"enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, STALL_S).topics[topic].partitions
        times = [TopicPartition(topic, number, max(0, since_ms)) for number in partitions]
        consumer.assign(consumer.offsets_for_times(times, STALL_S))
        yield from _read(consumer, len(partitions), access, errors)
    except KafkaException as error:
        raise unavailable(error, access) from error
    finally:
        consumer.close()


def _read(
    consumer: confluent_kafka.Consumer, partitions: int, access: KafkaAccess, errors: ClientErrors
) -> Iterator[tuple[bytes, bytes]]:
    heard = time.monotonic()
    while partitions:
        errors.check()
        messages = consumer.consume(BATCH, POLL_S)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > STALL_S:
            raise BrokerUnavailable(f"Kafka at {access.bootstrap_servers} does not answer: a topic could not be read.")
        for message in messages:
            error, key, value = message.error(), message.key(), message.value()
            if error is None:
                if isinstance(key, bytes) and isinstance(value, bytes):
                    yield key, value
            elif error.code() == KafkaError._PARTITION_EOF:
                partitions -= 1
            else:
                raise KafkaException(error)
