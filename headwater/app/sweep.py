"""`headwater sweep`: lists resources of deployments that the database does not know, and records them as ended."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.app.addresses import Addresses
from headwater.app.control import open_control
from headwater.app.controller import sources_of
from headwater.app.home import Home
from headwater.app.streams import load_bindings
from headwater.brokers.base import Broker
from headwater.brokers.cluster_admin import KafkaBroker
from headwater.controller.inventory import Found, ResourceNames, belonging, classify, running_elsewhere
from headwater.controller.sources import Sources
from headwater.controller.sweeper import recorded
from headwater.errors import SetupError
from headwater.services.ids import utc_now
from headwater.settings import Settings
from headwater.stores.base import DeploymentStore

POLL_S = 1.0
REMOVED_WITHIN_S = 180.0
"""The controller sweeps every 30 s, and removes a topic once it has seen it in two rounds."""


class Sweep:
    """The unknown resources on the broker, as listed when this was made, and their confirmation by an operator."""

    def __init__(self, broker: Broker, sources: Sources, deployments: DeploymentStore) -> None:
        self._broker = broker
        self._sources = sources
        self._deployments = deployments
        self._found = self._look()

    def _look(self) -> Found:
        return Found(self._broker.inventory(), self._sources.names())

    @property
    def unknown(self) -> ResourceNames:
        """The resources that the database does not know."""
        return classify(self._found, recorded(self._deployments, self._found)).unknown

    @property
    def running_elsewhere(self) -> frozenset[str]:
        """Deployments among them whose workers read now."""
        return running_elsewhere(self._found, self.unknown)

    def require_listed(self, ids: Sequence[str]) -> None:
        """Raise SetupError for an id that is not among the unknown deployments and configurations."""
        unknown = self.unknown
        if strange := set(ids) - unknown.deployments - unknown.flows:
            raise SetupError(
                f"{', '.join(sorted(strange))} is none of the ids that `headwater sweep` lists. Take them from its "
                "columns `deployment` and `configuration`."
            )

    def give_up(self, ids: Sequence[str]) -> frozenset[str]:
        """Record these deployments and configurations, or all unknown ones, as ended. Returns what was recorded.

        Raises SetupError for an id that is not among the unknown ones; and when none is named while the workers of
        some of them run.
        """
        self.require_listed(ids)
        unknown = self.unknown
        if not ids and (busy := self.running_elsewhere):
            raise SetupError(
                f"Workers of {', '.join(sorted(busy))} run now, so another installation uses this Kafka. Name the ids "
                "that you want to remove: headwater sweep --confirm ID…"
            )
        given_up = belonging(ids or sorted(unknown.deployments | unknown.flows), self._found, unknown)
        self._deployments.record_as_ended(given_up, utc_now())
        return given_up

    def wait_until_removed(self, ids: frozenset[str]) -> bool:
        """Wait for the controller to remove what was given up. False when that takes too long."""
        deadline = time.monotonic() + REMOVED_WITHIN_S
        while time.monotonic() < deadline:
            left = self._look().names
            if not ids & (left.deployments | left.flows):
                return True
            time.sleep(POLL_S)
        return False


@contextmanager
def sweep_of(settings: Settings) -> Iterator[Sweep]:
    """A look at the installation that the settings name. Raises SetupError, BrokerUnavailable, StoreUnavailable."""
    addresses = Addresses(settings, Home(settings.data_dir))
    if not settings.database_url.get_secret_value():
        addresses.require_home("HEADWATER_DATABASE_URL")
    with open_control(addresses) as database:
        manages_users = addresses.manages_kafka_users
        broker = KafkaBroker(addresses.kafka(), addresses.replication(), manages_users=manages_users)
        yield Sweep(broker, sources_of(load_bindings(settings), broker, database.deployments), database.deployments)
