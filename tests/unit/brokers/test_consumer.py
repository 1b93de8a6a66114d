"""The consumer of workers, without a broker."""

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.consumer import NO_OFFSET, LibrdkafkaConsumer, Rebalance
from headwater.model.access import KafkaAccess
from headwater.native.ffi import NULL, native_library
from headwater.native.librdkafka import ClientEvent, EventKind, PartitionOffset

ACCESS = KafkaAccess(bootstrap_servers="127.0.0.1:1", security_protocol="PLAINTEXT")


class Consumer(LibrdkafkaConsumer):
    """A consumer whose `unassign` fails."""

    def __init__(self) -> None:
        super().__init__(consumer_settings(ACCESS, ClientErrors(ACCESS), "group"), "topic")

    def add_event(self, event: ClientEvent) -> None:
        self._handle_event(event)

    def call_back_commit(self) -> None:
        native_library().kafka_on_commit(self._client, KafkaError._NO_OFFSET, NULL, self._events.struct)

    def call_back_rebalance(self, code: int, partitions: Iterable[int]) -> None:
        with self._partition_list(partitions) as changed:
            native_library().kafka_on_rebalance(self._client, code, changed.struct, self._events.struct)

    def incremental_unassign(self, partitions: Iterable[int]) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    consumer = Consumer()
    yield consumer
    consumer.close()


def test_the_client_is_freed_although_a_revocation_cannot_be_answered(consumer: Consumer) -> None:
    partitions = [PartitionOffset(0, NO_OFFSET)]
    consumer.add_event(ClientEvent(EventKind.REBALANCE, KafkaError._REVOKE_PARTITIONS, "", partitions, lost=False))
    assert consumer.close()
    assert consumer.closed


def test_a_rebalance_arrives_although_the_queue_of_events_is_full(consumer: Consumer) -> None:
    for _ in range(300):
        consumer.call_back_commit()
    consumer.call_back_rebalance(KafkaError._REVOKE_PARTITIONS, [3])
    consumer.fetch(1, 1, 0)
    assert consumer.take_rebalances() == [Rebalance(is_assignment=False, lost=False, partitions=[3])]
