"""The command `headwater sweep`, which finds resources of unrecorded deployments.

It lists resources of deployments that the database does not record, and records these deployments as ended.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.app.controller import sources_of
from headwater.app.data_directory import DataDirectory
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.app.stream_bindings import load_bindings
from headwater.brokers.base import ClusterAdmin
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.inventory import (
    ExistingResources,
    ResourceNames,
    active_unknown_deployments,
    classify,
    connected_ids,
)
from headwater.controller.sources import Sources
from headwater.controller.sweeper import recorded_state
from headwater.errors import SetupError
from headwater.services.ids import utc_now
from headwater.settings import Settings
from headwater.stores.protocols.deployments import DeploymentStore

POLL_S = 1.0
REMOVED_WITHIN_S = 180.0
"""The controller sweeps every 30 s, and removes a topic that two sweeps in a row have found unused."""


class Sweep:
    """The unknown resources on the broker, as listed when this object was created.

    An operator can record them as ended, so that the controller removes them.
    """

    def __init__(self, broker: ClusterAdmin, sources: Sources, deployments: DeploymentStore) -> None:
        self._broker = broker
        self._sources = sources
        self._deployments = deployments
        self._found = self._list_resources()

    def _list_resources(self) -> ExistingResources:
        return ExistingResources(self._broker.inventory(), self._sources.names())

    @property
    def unknown(self) -> ResourceNames:
        """The resources that the database does not record."""
        return classify(self._found, recorded_state(self._deployments, self._found)).unknown

    @property
    def active_unknown(self) -> frozenset[str]:
        """The unknown deployments whose workers run now, probably those of another installation."""
        return active_unknown_deployments(self._found, self.unknown)

    def require_listed(self, ids: Sequence[str]) -> None:
        """Raise SetupError for an id that is not among the unknown deployments and configurations."""
        unknown = self.unknown
        if strange := set(ids) - unknown.deployments - unknown.flows:
            raise SetupError(
                f"`headwater sweep` does not list {', '.join(sorted(strange))}. Take ids from its columns `deployment` "
                "and `configuration`."
            )

    def record_as_ended(self, ids: Sequence[str]) -> frozenset[str]:
        """Record these deployments and configurations, or all unknown ones, as ended.

        Returns what was recorded. Raises SetupError for an id that is not listed, and when no ids are given although
        workers of some of the unknown deployments run.
        """
        self.require_listed(ids)
        unknown = self.unknown
        if not ids and (busy := self.active_unknown):
            raise SetupError(
                f"Workers of {', '.join(sorted(busy))} run now, so another installation uses this Kafka. Name the ids "
                "that you want to remove: headwater sweep --confirm ID…"
            )
        recorded = connected_ids(ids or sorted(unknown.deployments | unknown.flows), self._found, unknown)
        self._deployments.record_as_ended(recorded, utc_now())
        return recorded

    def wait_until_removed(self, ids: frozenset[str]) -> bool:
        """Wait until the controller has removed the resources.

        Returns False when that takes too long.
        """
        deadline = time.monotonic() + REMOVED_WITHIN_S
        while time.monotonic() < deadline:
            left = self._list_resources().names
            if not ids & (left.deployments | left.flows):
                return True
            time.sleep(POLL_S)
        return False


@contextmanager
def sweep_of(settings: Settings) -> Iterator[Sweep]:
    """Open a Sweep of the installation in the settings.

    Raises SetupError, BrokerUnavailable, DatabaseUnavailable.
    """
    endpoints = Endpoints(settings, DataDirectory(settings.data_dir))
    if not settings.database_url.get_secret_value():
        endpoints.require_data_directory("HEADWATER_DATABASE_URL")
    with connect_database(endpoints) as database:
        manages_users = endpoints.manages_kafka_users
        broker = KafkaClusterAdmin(endpoints.kafka(), endpoints.replication(), manages_users=manages_users)
        yield Sweep(broker, sources_of(load_bindings(settings), broker, database.deployments), database.deployments)
