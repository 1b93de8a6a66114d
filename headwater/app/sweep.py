"""Implements `headwater sweep`, which lists resources that the database does not record.

When an operator confirms the list, the deployments of the resources are recorded as ended, so that the controller
removes the resources.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.app.database import installation_database
from headwater.app.endpoints import Endpoints
from headwater.app.source_clients import connect_sources
from headwater.app.stream_bindings import load_bindings
from headwater.brokers.base import ClusterAdmin
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.classification import active_unknown_deployments, classify, connected_ids
from headwater.controller.deployment_sources import Sources
from headwater.controller.recorded_state import read_recorded_state
from headwater.controller.resource_names import ExistingResources, ResourceNames
from headwater.errors import SetupError
from headwater.services.ids import utc_now
from headwater.settings import Settings
from headwater.stores.protocols.deployments import DeploymentStore

POLL_S = 1.0
REMOVED_WITHIN_S = 180.0
"""The controller sweeps every 30 s, and removes a topic that two sweeps in a row have found unused."""


class UnknownResources:
    """The resources that the database does not record, as listed when this object was created.

    An operator can record the deployments of these resources as ended, so that the controller removes the resources.
    """

    def __init__(self, own_cluster: ClusterAdmin, sources: Sources, deployments: DeploymentStore) -> None:
        self._own_cluster = own_cluster
        self._sources = sources
        self._deployments = deployments
        self._existing = self._list_resources()

    def _list_resources(self) -> ExistingResources:
        return ExistingResources(
            self._own_cluster.inventory(),
            external_groups=self._sources.external_groups(),
            subscriptions=self._sources.subscriptions(),
        )

    @property
    def names(self) -> ResourceNames:
        """The names of the unknown resources."""
        return classify(self._existing, read_recorded_state(self._deployments, self._existing)).unknown

    @property
    def active_deployments(self) -> frozenset[str]:
        """The ids of unknown deployments whose workers run now, probably for another installation.

        Only workers that read Kafka are seen, see `active_unknown_deployments`.
        """
        return active_unknown_deployments(self._existing, self.names)

    def require_listed(self, ids: Sequence[str]) -> None:
        """Raise SetupError for an id that is not among the unknown deployments and configurations."""
        names = self.names
        if unlisted := set(ids) - names.deployment_ids - names.config_ids:
            raise SetupError(
                f"`headwater sweep` does not list {', '.join(sorted(unlisted))}. Take ids from its columns "
                "`deployment` and `configuration`."
            )

    def record_as_ended(self, ids: Sequence[str]) -> frozenset[str]:
        """Record unknown deployments and configurations as ended. Returns their ids.

        Records the deployments and configurations with the given ids, and every one that an ACL connects with one of
        these: an ACL lets the user of a deployment use the topics of its configuration. When `ids` is empty, all that
        are listed are recorded. Raises SetupError for an id that is not listed, and when one of `active_deployments`
        would be recorded although `ids` does not contain its id.
        """
        self.require_listed(ids)
        names = self.names
        ended_ids = connected_ids(ids or sorted(names.deployment_ids | names.config_ids), self._existing, names)
        if active := (self.active_deployments & ended_ids).difference(ids):
            raise SetupError(
                f"Workers of {', '.join(sorted(active))} run now, so another installation uses this Kafka. Name the "
                "ids of all deployments that you want to remove: headwater sweep --confirm ID…"
            )
        self._deployments.record_as_ended(ended_ids, utc_now())
        return ended_ids

    def wait_until_removed(self, ids: frozenset[str]) -> bool:
        """Wait until the controller has removed the resources with these ids.

        Returns False when that takes longer than REMOVED_WITHIN_S seconds.
        """
        deadline = time.monotonic() + REMOVED_WITHIN_S
        while time.monotonic() < deadline:
            remaining = self._list_resources().names
            if not ids & (remaining.deployment_ids | remaining.config_ids):
                return True
            time.sleep(POLL_S)
        return False


@contextmanager
def find_unknown_resources(settings: Settings) -> Iterator[UnknownResources]:
    """List the unknown resources of the installation in the settings.

    The database stays open during the block. Raises SetupError, BrokerUnavailable, DatabaseUnavailable.
    """
    endpoints = Endpoints.from_settings(settings)
    with installation_database(settings) as database:
        manages_users = endpoints.manages_kafka_users
        own_cluster = KafkaClusterAdmin(
            endpoints.admin_kafka_access(), replication=endpoints.replication(), manages_users=manages_users
        )
        sources = connect_sources(load_bindings(settings), own_cluster, database.deployments)
        yield UnknownResources(own_cluster, sources, database.deployments)
