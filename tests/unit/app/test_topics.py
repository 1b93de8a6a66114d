"""Topics are created when a process starts, which waits while Kafka is unavailable."""

import threading

import pytest
from structlog.testing import capture_logs

from headwater.app.topics import create_topics
from headwater.brokers.base import DeploymentResources, TopicSpec
from headwater.errors import BrokerUnsuitable, SetupError
from tests.support.memory.broker import MemoryClusterAdmin

TOPIC = TopicSpec("stream.base.log", 4)


class LateBroker(MemoryClusterAdmin):
    """A broker that is unavailable for the first `calls` calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self._calls = calls

    def partition_count(self, topic: str) -> int | None:
        self.away = self._calls > 0
        self._calls -= 1
        return super().partition_count(topic)


def test_an_existing_topic_is_not_changed() -> None:
    broker = MemoryClusterAdmin()
    existing = TopicSpec(TOPIC.name, 1)
    broker.ensure(DeploymentResources((existing,), (), ()))
    with capture_logs() as lines:
        create_topics(broker, (TOPIC, TopicSpec("another", 2)), threading.Event())
    assert lines == []
    assert (broker.partition_count(TOPIC.name), broker.partition_count("another")) == (1, 2)


def test_waiting_for_kafka_is_logged() -> None:
    broker = LateBroker(2)
    with capture_logs() as lines:
        create_topics(broker, (TOPIC,), threading.Event())
    assert broker.topics.keys() == {TOPIC.name}
    assert [(line["event"], bool(line["reason"])) for line in lines] == [("the start waits for Kafka", True)]


def test_a_cluster_that_rejects_the_topics_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MemoryClusterAdmin()

    def reject(_: DeploymentResources) -> None:
        raise BrokerUnsuitable("The Kafka cluster has fewer brokers than the replication factor 3.")

    monkeypatch.setattr(broker, "ensure", reject)
    with pytest.raises(SetupError, match="fewer brokers"):
        create_topics(broker, (TOPIC,), threading.Event())
