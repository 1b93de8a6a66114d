"""The lag of a deployment is read from the Kafka cluster of its source."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubTopic
from headwater.model.deployment import Deployment
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
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
    ) as created:
        yield created


def test_an_unavailable_cluster_does_not_hide_the_lag_on_another_one(metrics: DeploymentMetrics) -> None:
    assert metrics.lag(deployment_of("polygon", "log")).result(WITHIN_S) is None
    assert metrics.lag(deployment_of("base", "log")).result(WITHIN_S) is not None


def test_a_source_outside_of_kafka_has_no_lag(metrics: DeploymentMetrics) -> None:
    assert metrics.lag(deployment_of("solana", "nonvoting_transaction")).result(WITHIN_S) is None
