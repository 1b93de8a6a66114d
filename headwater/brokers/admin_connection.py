"""Admin clients for long-running processes, which may leave the clients unused for days."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakSet

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.known_brokers import KnownBrokers
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess

POLL_INTERVAL_S: Final = 1.0
RETIRED_FOR_S: Final = 15.0
"""How long a replaced client is kept. Its requests have ended by then."""

log = structlog.get_logger(__name__)


class _Pollable(Protocol):
    """An object with one or more clients."""

    def poll_idle(self) -> None:
        """Handle the events that librdkafka has queued. Never waits."""


class _Poller:
    """Polls objects every POLL_INTERVAL_S seconds, in one thread.

    librdkafka queues the log lines and errors of a client until the client is polled. In an outage these are dozens a
    second, so the queue of a client that nobody polls would fill the memory. The poller has weak references, so it
    keeps no client alive.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._polled: WeakSet[_Pollable] = WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, polled: _Pollable) -> None:
        """Poll this object from now on."""
        with self._lock:
            self._polled.add(polled)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="poll-idle-clients", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(POLL_INTERVAL_S)
            self._poll_all()

    def _poll_all(self) -> None:
        with self._lock:
            polled = list(self._polled)
        for each in polled:
            each.poll_idle()


POLLER: Final = _Poller()
"""The poller of this process."""


class AdminConnection:
    """The connection of a process to a Kafka cluster for requests of an AdminClient.

    The client's events are handled even while nobody uses the client. When librdkafka has lost all brokers of the
    client (see known_brokers.py), another client takes its place. Raises BrokerUnavailable for settings that can't be
    used.

    Args:
        access: How the client logs in.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._errors = ClientErrors(access)
        self._brokers, self._client = self._open()
        self._retired: AdminClient | None = None
        """The client that was replaced last. It is freed after its requests have ended, on the poller's thread."""
        self._retired_at = 0.0
        POLLER.add(self)

    def _open(self) -> tuple[KnownBrokers, AdminClient]:
        brokers = KnownBrokers()
        try:
            return brokers, AdminClient(admin_settings(self._access, self._errors) | brokers.settings())
        except KafkaException as error:
            raise broker_unavailable_error(error, self._access) from error

    @property
    def client(self) -> AdminClient:
        """The client for the next request; a later request may need another client."""
        return self._client

    def poll_idle(self) -> None:
        """Handle the events that librdkafka has queued. Never waits.

        Replaces the client if it has lost all brokers.
        """
        self._client.poll(0)
        if self._retired is not None and time.monotonic() - self._retired_at > RETIRED_FOR_S:
            self._retired = None
        if self._brokers.are_lost and self._retired is None:
            self._replace()

    def _replace(self) -> None:
        servers = self._access.bootstrap_servers
        try:
            brokers, client = self._open()
        except BrokerUnavailable as error:
            log.warning("an admin client without brokers can't be replaced", servers=servers, reason=error.detail)
            return
        log.warning("an admin client is replaced, since librdkafka has lost all of its brokers", servers=servers)
        self._retired, self._retired_at = self._client, time.monotonic()
        self._brokers, self._client = brokers, client

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translate KafkaException into BrokerUnavailable, whose message names a rejected login."""
        try:
            yield
        except KafkaException as error:
            # A request of a client that can't log in times out. librdkafka reports the reason only through `error_cb`.
            self._client.poll(0)
            self._errors.check()
            raise broker_unavailable_error(error, self._access) from error
