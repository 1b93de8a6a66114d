"""Clients whose brokers librdkafka has removed are replaced."""

import json
import time
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection

from headwater.brokers import kafka_tail_reader, kafka_topic_history
from headwater.brokers.admin_connection import AdminConnection
from headwater.brokers.kafka_tail_reader import KafkaTailReader
from headwater.brokers.kafka_topic_history import KafkaTopicHistory
from headwater.brokers.known_brokers import KnownBrokers
from headwater.errors import BrokerUnavailable
from tests.integration.brokers.test_kafka_tail_reader import Listener
from tests.support.kafka import WAIT_S, KafkaServer, OwnKafka
from tests.support.waiting import until


def statistics(state: str = "UP", since_s: int = 60, source: str = "learned") -> str:
    """Return the statistics of a client with one broker, as librdkafka writes them."""
    return json.dumps(
        {"brokers": {"127.0.0.1:9092/1": {"source": source, "state": state, "stateage": since_s * 10**6}}}
    )


NO_BROKERS = '{"brokers": {}}'
SUSPENDED_FOR_S = 20.0
"""The controller of the cluster fences its broker after 9 s (`broker.session.timeout.ms`)."""


@pytest.fixture
def all_known(monkeypatch: pytest.MonkeyPatch) -> list[KnownBrokers]:
    """The objects of all consumers that are opened, in their order."""
    opened: list[KnownBrokers] = []

    class Recorded(KnownBrokers):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

    for module in (kafka_tail_reader, kafka_topic_history):
        monkeypatch.setattr(module, "KnownBrokers", Recorded)
    return opened


@pytest.mark.parametrize(
    ("received", "are_lost"),
    [
        (NO_BROKERS, True),
        (statistics(source="logical"), True),
        (statistics("INIT"), True),
        (statistics("INIT", since_s=1), False),
        (statistics("TRY_CONNECT", since_s=30), False),
        (statistics("TRY_CONNECT", since_s=61), True),
    ],
)
def test_a_client_without_a_usable_broker(received: str, are_lost: bool) -> None:
    known = KnownBrokers()
    known(received)
    assert known.are_lost is are_lost
    known(statistics())
    assert not known.are_lost


def test_an_admin_client(kafka: KafkaServer) -> None:
    connection = AdminConnection(kafka.access)
    lost = connection.client
    connection._brokers(NO_BROKERS)
    until(lambda: connection.client is not lost, WAIT_S, "another client")
    with connection.translated_errors():
        assert connection.client.list_topics(timeout=WAIT_S).brokers


def test_the_consumer_of_live_tails(kafka: KafkaServer, all_known: list[KnownBrokers]) -> None:
    topic, listener = kafka.create_topic(kafka.unique("tail"), 2), Listener()
    with closing(KafkaTailReader(kafka.access)) as reader:
        reader.subscribe(topic, listener)
        kafka.produce(topic, [b"before"] * 3)
        listener.wait_for(3)
        all_known[0](NO_BROKERS)
        kafka.produce(topic, [b"after"] * 3)
        kafka.produce(topic, [b"first of its partition"], partition=1)
        until(lambda: len(all_known) == 2, WAIT_S, "another consumer")
        listener.wait_for(7)
    assert sorted(value or b"" for value in listener.values) == [b"after"] * 3 + [b"before"] * 3 + [
        b"first of its partition"
    ]


def test_a_pooled_consumer_of_records(kafka: KafkaServer, all_known: list[KnownBrokers]) -> None:
    topic = kafka.create_topic(kafka.unique("records"))
    kafka.produce(topic, [b"record"])
    with closing(KafkaTopicHistory(kafka.access)) as history:
        for number in (1, 2):
            chunks = history.read(topic, history.ranges(topic), 1_000)
            assert [record.value for record in chunks[0].records] == [b"record"]
            all_known[-1](NO_BROKERS)
            until(lambda: not history._idle, WAIT_S, "the consumer is closed")
            assert len(all_known) == number


def ask_coordinator(connection: AdminConnection) -> Any:
    """Send a request to the coordinator of a group, which the client remembers."""
    groups = [ConsumerGroupTopicPartitions("wrk-any")]
    (future,) = connection.client.list_consumer_group_offsets(groups, request_timeout=5).values()
    return future


@pytest.mark.slow
def test_clients_after_their_broker_was_fenced(own_kafka: OwnKafka) -> None:
    """librdkafka loses the brokers of clients that send requests while the broker is fenced."""
    server = own_kafka.server
    topic = server.create_topic(server.unique("fenced"))
    connections = [AdminConnection(server.access) for _ in range(24)]
    for connection in connections:
        ask_coordinator(connection).result()
    own_kafka.suspend()
    time.sleep(SUSPENDED_FOR_S)
    own_kafka.resume()
    for _ in range(400):
        for connection in connections:
            connection.client.describe_topics(TopicCollection([topic]), request_timeout=1)
    for connection in connections:
        ask_coordinator(connection)

    def answers(connection: AdminConnection) -> bool:
        try:
            with connection.translated_errors():
                return bool(connection.client.list_topics(timeout=1).brokers)
        except BrokerUnavailable:
            return False

    until(lambda: all(map(answers, connections)), 120, "answers of all clients")
