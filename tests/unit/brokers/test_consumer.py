"""The consumer of workers, without a broker."""

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.consumer import NO_OFFSET, LibrdkafkaConsumer
from headwater.model.access import KafkaAccess
from headwater.native.librdkafka import ClientEvent, EventKind, PartitionOffset

ACCESS = KafkaAccess(bootstrap_servers="127.0.0.1:1", security_protocol="PLAINTEXT")


class Consumer(LibrdkafkaConsumer):
    """A consumer whose `unassign` fails."""

    def __init__(self) -> None:
        super().__init__(consumer_settings(ACCESS, ClientErrors(ACCESS), "group"), "topic")

    def add_event(self, event: ClientEvent) -> None:
        self._handle_event(event)

    def unassign(self, partitions: Iterable[int]) -> None:
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


def test_a_commit_of_nothing_has_not_failed(consumer: Consumer) -> None:
    partitions = [PartitionOffset(0, NO_OFFSET)]
    consumer.add_event(ClientEvent(EventKind.COMMIT, KafkaError._NO_OFFSET, "", partitions, lost=False))
    assert consumer.take_commit_failures() == []
