"""The lag of a deployment is read from the Kafka cluster of its source."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headwater.brokers.base import TopicOffsets
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubTopic
from headwater.model.deployment import Deployment
from headwater.model.positions import GroupPositions, StoredPositions
from headwater.services.deployment_metrics import DeploymentMetrics
from tests.support.memory.metrics import MemoryMetrics
from tests.unit.controller.world import deployment

WITHIN_S = 10
UNAVAILABLE = KafkaAccess(bootstrap_servers="unavailable.example:9092")
BINDINGS = Bindings(
    {
        "polygon.log": KafkaTopic("logs", UNAVAILABLE),
        "solana.nonvoting_transaction": PubSubTopic("projects/p/topics/t", PubSubAccess(project="p")),
    }
)


def read_lag(access: KafkaAccess | None, group: str) -> int:
    if access == UNAVAILABLE:
        raise BrokerUnavailable("Kafka does not answer.")
    return len(group)


def read_ends(access: KafkaAccess | None, topic: str) -> TopicOffsets:
    assert access is None
    assert topic == "stream.base.log"
    return TopicOffsets("id", {0: 10, 1: 7, 2: 3})


def deployment_of(chain: str, entity: str) -> Deployment:
    stored = deployment()
    source = stored.config.source.model_copy(update={"chain": chain, "entity": entity})
    return replace(stored, config=stored.config.model_copy(update={"source": source}))


@pytest.fixture
def metrics() -> Iterator[DeploymentMetrics]:
    with closing(
        DeploymentMetrics(
            store=MemoryMetrics(),
            bindings=BINDINGS,
            read_lag=read_lag,
            read_ends=read_ends,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
    ) as created:
        yield created


def test_an_unavailable_cluster_does_not_hide_the_lag_on_another_one(metrics: DeploymentMetrics) -> None:
    assert metrics.lag(deployment_of("polygon", "log")).result(WITHIN_S) is None
    assert metrics.lag(deployment_of("base", "log")).result(WITHIN_S) is not None


def test_a_source_outside_of_kafka_has_no_lag(metrics: DeploymentMetrics) -> None:
    assert metrics.lag(deployment_of("solana", "nonvoting_transaction")).result(WITHIN_S) is None


@pytest.mark.parametrize(("topic_id", "expected"), [("id", 5 + 0 + 3), ("another", None)])
def test_the_lag_of_a_paused_deployment_is_that_of_its_stored_positions(
    metrics: DeploymentMetrics, topic_id: str, expected: int | None
) -> None:
    offsets = {0: 5, 1: 8}
    group = GroupPositions(topic="stream.base.log", topic_id=topic_id, offsets=offsets)
    paused = replace(deployment(), positions=StoredPositions(groups={1: group}))
    assert metrics.lag(paused).result(WITHIN_S) == expected
