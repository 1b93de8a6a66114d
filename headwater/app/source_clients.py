"""Connects to the Kafka clusters and Pub/Sub projects of the stream bindings."""

from collections.abc import Collection

from headwater.brokers.base import ClusterAdmin, Subscriptions
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.deployment_sources import Sources
from headwater.model.access import PubSubAccess
from headwater.model.binding import Bindings
from headwater.stores.protocols.deployments import DeploymentStore


def connect_sources(bindings: Bindings, own_cluster: ClusterAdmin, deployments: DeploymentStore) -> Sources:
    """Return the sources of these bindings, with a client for each cluster and each project.

    Args:
        bindings: The stream bindings.
        own_cluster: The installation's own Kafka cluster.
        deployments: The deployments that read the sources.
    """
    return Sources(
        bindings=bindings,
        own_cluster=own_cluster,
        active_deployments=deployments.list_active,
        clusters={access: KafkaClusterAdmin(access) for access in bindings.kafka_accesses()},
        projects=_projects(bindings.pubsub_accesses()),
    )


def _projects(accesses: Collection[PubSubAccess]) -> dict[PubSubAccess, Subscriptions]:
    if not accesses:
        return {}
    from headwater.brokers.pubsub_subscriptions import PubSubSubscriptions  # an extra of the package

    return {access: PubSubSubscriptions(access) for access in accesses}
