"""Translates the errors of librdkafka clients into messages that tell the user what to do."""

import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.security import identity, is_security_error, security_error_message
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess

MAX_ERROR_AGE_S: Final = 15.0
"""How long an error is remembered. While a login fails, librdkafka reports the error again at least every 10 s."""


class ClientErrors:
    """Remembers the last authentication or TLS error of a client. Thread-safe.

    The object is the client's `error_cb`, which is the only way in which librdkafka reports these errors. librdkafka
    calls it inside `poll`, `consume` or `flush` of the client. librdkafka retries after every error by itself, so all
    other errors are ignored.
    """

    def __init__(self, access: KafkaAccess, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._lock = threading.Lock()
        self._last_error: KafkaError | None = None
        self._reported_at = 0.0

    def __call__(self, error: KafkaError) -> None:
        if is_security_error(error):
            with self._lock:
                self._last_error, self._reported_at = error, self._clock()

    def check(self) -> None:
        """Raise BrokerUnavailable for an error that librdkafka has reported since the last call.

        An error that is older than MAX_ERROR_AGE_S is forgotten.
        """
        with self._lock:
            error, self._last_error = self._last_error, None
            is_recent = self._clock() - self._reported_at <= MAX_ERROR_AGE_S
        if error is not None and is_recent:
            raise broker_unavailable_error(error, self._access)


def broker_unavailable_error(cause: KafkaError | KafkaException, access: KafkaAccess) -> BrokerUnavailable:
    """Return the error to raise for a failed call. Its message tells the user what to do."""
    error: KafkaError = cause.args[0] if isinstance(cause, KafkaException) else cause
    return BrokerUnavailable(_message(error, access))


def unreadable_partition_message(reason: str, topic: str, partition: int, access: KafkaAccess) -> str:
    """Return the message for a partition that can't be read at the moment."""
    return f"Partition {partition} of {topic} can't be read from {access.bootstrap_servers}: {reason}."


def missing_rights_message(access: KafkaAccess) -> str:
    """Return the message for a user who may not manage the cluster."""
    return (
        f"On Kafka at {access.bootstrap_servers}, {identity(access)} lacks a right. Grant it the rights that "
        "docs/external_kafka.md lists."
    )


def _message(error: KafkaError, access: KafkaAccess) -> str:
    servers = access.bootstrap_servers
    if is_security_error(error):
        return security_error_message(error, access)
    match error.code():
        case KafkaError._TRANSPORT | KafkaError._TIMED_OUT | KafkaError._ALL_BROKERS_DOWN | KafkaError._RESOLVE:
            return (
                f"Kafka at {servers} does not answer: check that it runs, and that the address and the security "
                "protocol are right."
            )
        case KafkaError._INVALID_ARG:
            return f"The settings of Kafka at {servers} can't be used: {error.str()}. Correct them."
        case KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return missing_rights_message(access)
        case KafkaError.INVALID_REPLICATION_FACTOR:
            return (
                f"Kafka at {servers} has fewer brokers than the replication factor. Lower HEADWATER_KAFKA_REPLICATION."
            )
        case _:
            return (
                f"Kafka at {servers} rejected a request: {error.str()} ({error.name()}). Look at the broker's log for "
                "the reason."
            )
