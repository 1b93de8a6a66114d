"""The one builder of librdkafka settings, and what librdkafka says on the side: its log and `error_cb`.

Each `*_settings` function returns a dict that `AdminClient`, `Consumer` or `Producer` takes as it is.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.security import identity, is_refusal, refusal, security_settings
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

ClientSettings = dict[str, Any]

MAX_MESSAGE_BYTES: Final = 1_040_000
"""Largest key + value + headers of one record: below the topics' max.message.bytes, with room for framing."""

MAX_POLL_INTERVAL_MS: Final = 120_000
"""A consumer that does not poll for this long loses its partitions."""

log = structlog.get_logger(__name__)


class Member(NamedTuple):
    """Who stores positions in a transaction: a consumer's group metadata, the metadata of the commit, and the leader
    epoch of the record before a position of a partition (-1: not known).
    """

    group: object
    label: str
    epoch_before: Callable[[int, int], int]


class LibraryLog:
    """librdkafka's log. Debug level: an outage repeats its lines several times a second, and who waits reports it."""

    def log(self, _level: int, message: str, *arguments: Any) -> None:
        """Called by the binding with a printf-style message."""
        log.debug("librdkafka", message=message % arguments if arguments else message)


class ClientErrors:
    """What a client hears only through `error_cb`: refused credentials. All else librdkafka retries by itself.

    Callbacks run inside `poll`, `consume` or `flush` of the client. Thread-safe.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._refusal: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if is_refusal(error):
            with self._lock:
                self._refusal = error

    def check(self) -> None:
        """Raise BrokerUnavailable when the broker refused our credentials since the last call."""
        with self._lock:
            refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise unavailable(refusal, self._access)


def unavailable(cause: KafkaError | KafkaException, access: KafkaAccess) -> BrokerUnavailable:
    """The error to raise for a failed call, with a sentence that tells the reader what to do."""
    error: KafkaError = cause.args[0] if isinstance(cause, KafkaException) else cause
    return BrokerUnavailable(_sentence(error, access))


def unread(why: str, topic: str, partition: int, access: KafkaAccess) -> str:
    """The sentence for a partition that can't be read at the moment."""
    return f"Partition {partition} of {topic} can't be read from {access.bootstrap_servers}: {why}."


def no_rights(access: KafkaAccess) -> str:
    """The sentence for a user who may not manage the cluster."""
    who = identity(access)
    return f"On Kafka {who} lacks a right: docs/own_kafka.md lists those that it needs."


def _sentence(error: KafkaError, access: KafkaAccess) -> str:
    servers = access.bootstrap_servers
    if is_refusal(error):
        return refusal(error, access)
    match error.code():
        case KafkaError._TRANSPORT | KafkaError._TIMED_OUT | KafkaError._ALL_BROKERS_DOWN | KafkaError._RESOLVE:
            return (
                f"Kafka at {servers} does not answer: check that it runs, and that the address and the security "
                "protocol are right."
            )
        case KafkaError._INVALID_ARG:
            return f"The settings of Kafka at {servers} can't be used: {error.str()}. Correct them."
        case KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return no_rights(access)
        case KafkaError.INVALID_REPLICATION_FACTOR:
            return f"Kafka at {servers} has too few brokers for that many copies: lower the replication setting."
        case _:
            return f"Kafka at {servers} refused a request: {error.str()} ({error.name()})."


def _settings(access: KafkaAccess, errors: ClientErrors) -> ClientSettings:
    settings: ClientSettings = {
        "bootstrap.servers": access.bootstrap_servers,
        "client.id": "headwater",
        "log.connection.close": False,
        "socket.keepalive.enable": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,  # the default, 10 s, would be most of a recovery
        "logger": LibraryLog(),
        "error_cb": errors,
    }
    return settings | security_settings(access)


def admin_settings(access: KafkaAccess, errors: ClientErrors) -> ClientSettings:
    """Settings of an AdminClient."""
    return _settings(access, errors)


def consumer_settings(
    access: KafkaAccess, errors: ClientErrors, group: str, instance_id: str | None = None
) -> ClientSettings:
    """Settings of a consumer whose user commits, and which stops at a gap instead of jumping over it.

    instance_id makes it a static member: its successor under the same id takes over without a rebalance.
    """
    settings = _settings(access, errors) | {
        "group.id": group,
        "group.protocol": "classic",  # KIP-848 takes at least 45 s to notice a killed member
        "partition.assignment.strategy": "cooperative-sticky",
        # The least that brokers take by default. A rebalance waits this long for each member that ended without leaving
        # its group, and one restart of a broker can leave two such members.
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 2_000,
        "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "check.crcs": True,
        # While one partition's queue is full, a fetch that waits for the others holds it up: no longer than its queue
        # lasts.
        "fetch.wait.max.ms": 100,
        # Twice and four times as much took more memory and was no faster.
        "max.partition.fetch.bytes": 1 << 20,
        "queued.max.messages.kbytes": 16 << 10,
        # librdkafka decompresses no record batch to more than this. `engine.isolation` finds a partition whose batches
        # take more memory than a worker has.
        "receive.message.max.bytes": 1 << 30,
        "fetch.queue.backoff.ms": 50,  # the default, 1 s, stalls fetching whenever the queue was full
    }
    if instance_id is not None:
        settings["group.instance.id"] = instance_id
    return settings


def producer_settings(access: KafkaAccess, errors: ClientErrors, linger_ms: float) -> ClientSettings:
    """Settings of an idempotent Producer.

    linger_ms: how long a record may wait for company. Success is not reported; `flush() == 0` is its proof.
    """
    return _settings(access, errors) | {
        "enable.idempotence": True,
        # From a producer that is new to it, a broker takes whatever comes first (KAFKA-15591), and librdkafka takes
        # that as proof of all before (librdkafka issue 2501): with more on their way, a first batch that is refused,
        # as before a new topic has its leader or while one moves, would be lost without an error.
        "max.in.flight.requests.per.connection": 1,
        "acks": "all",
        "linger.ms": linger_ms,
        "compression.type": "lz4",
        "batch.size": 1_000_000,
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "delivery.timeout.ms": MAX_POLL_INTERVAL_MS,
        "queue.buffering.max.kbytes": 128 << 10,
        "delivery.report.only.error": True,
    }
