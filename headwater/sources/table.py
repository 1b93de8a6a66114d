"""A compacted topic, read as a table."""

import time
from typing import Final

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from headwater.brokers.client import ClientErrors, consumer_settings, unavailable
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

READ_S: Final = 30.0
POLL_S: Final = 0.5


def read_table(access: KafkaAccess, topic: str, within_s: float = READ_S) -> dict[bytes, bytes]:
    """The last committed value of each key, up to the topic's present end. Raises BrokerUnavailable."""
    errors = ClientErrors(access)
    settings = consumer_settings(access, errors, "headwater.table") | {"enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, within_s).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        return _read(consumer, len(partitions), access, errors, time.monotonic() + within_s)
    except KafkaException as error:
        raise unavailable(error, access) from error
    finally:
        consumer.close()


def _read(
    consumer: confluent_kafka.Consumer, partitions: int, access: KafkaAccess, errors: ClientErrors, deadline: float
) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    while partitions:
        errors.check()
        message = consumer.poll(POLL_S)
        if time.monotonic() > deadline:
            raise BrokerUnavailable(f"Kafka at {access.bootstrap_servers} is too slow: a topic could not be read.")
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            partitions -= 1
        elif error is None:
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            if value is None:
                table.pop(key, None)
            else:
                assert isinstance(value, bytes)
                table[key] = value
    return table
