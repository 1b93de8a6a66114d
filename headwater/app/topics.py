"""Creates the topics that Headwater's processes need before they start to work."""

import threading
from collections.abc import Sequence

from headwater.backoff import Backoff
from headwater.brokers.base import STREAM_TOPIC_CONFIG, ClusterAdmin, DeploymentResources, TopicSpec
from headwater.errors import BrokerUnavailable, BrokerUnsuitable, SetupError
from headwater.model.binding import Bindings
from headwater.model.stream import STREAM_PARTITIONS
from headwater.wait_log import WaitLog


def stream_topics(bindings: Bindings) -> tuple[TopicSpec, ...]:
    """Return the topics of the streams, as they are created in the embedded Kafka."""
    return tuple(
        TopicSpec(topic, STREAM_PARTITIONS, STREAM_TOPIC_CONFIG) for _, topic in bindings.installation_topics()
    )


def create_topics(cluster: ClusterAdmin, topics: tuple[TopicSpec, ...], stop: threading.Event) -> None:
    """Create missing topics, and wait until Kafka knows all topics or `stop` is set.

    An existing topic is never changed, because it may belong to an operator. While Kafka is unavailable, the call
    waits. Raises SetupError when Kafka can't create the topics, such as when the cluster has fewer brokers than the
    replication factor.
    """
    backoff, wait_log = Backoff(0.1, 2.0), WaitLog("the start waits for Kafka")
    while not stop.is_set():
        try:
            if missing := _missing(cluster, topics):
                cluster.ensure(DeploymentResources(topics=missing, users=(), acls=()))
                missing = _missing(cluster, topics)
            if not missing:  # consumers would treat a missing topic as an error
                return
            names = [topic.name for topic in missing]
            wait_log.log_if_due(reason="Kafka does not have all topics yet.", missing=names)
        except BrokerUnsuitable as error:
            raise SetupError(error.detail) from error
        except BrokerUnavailable as error:
            wait_log.log_if_due(reason=error.detail)
        stop.wait(backoff.next_delay_s())


def _missing(cluster: ClusterAdmin, topics: Sequence[TopicSpec]) -> tuple[TopicSpec, ...]:
    return tuple(topic for topic in topics if not cluster.partition_count(topic.name))
