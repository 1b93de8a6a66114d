"""Admin clients for long-running processes, which may leave the clients unused for days."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakSet

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import admin_settings
from headwater.model.access import KafkaAccess

POLL_INTERVAL_S: Final = 1.0


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


class PolledAdminClient(AdminClient):
    """An AdminClient whose events are handled even while nobody uses it.

    Raises BrokerUnavailable for settings that can't be used.

    Args:
        access: How the client logs in.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._errors = ClientErrors(access)
        try:
            super().__init__(admin_settings(access, self._errors))
        except KafkaException as error:
            raise broker_unavailable_error(error, access) from error
        POLLER.add(self)

    def poll_idle(self) -> None:
        """Handle the events that librdkafka has queued. Never waits."""
        self.poll(0)

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translate KafkaException into BrokerUnavailable, whose message names a rejected login."""
        try:
            yield
        except KafkaException as error:
            # A request of a client that can't log in times out. librdkafka reports the reason only through `error_cb`.
            self.poll(0)
            self._errors.check()
            raise broker_unavailable_error(error, self._access) from error
