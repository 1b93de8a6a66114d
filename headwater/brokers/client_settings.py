"""Builds the settings of all librdkafka clients.

Each `*_settings` function returns a dict that `AdminClient`, `Consumer` or `Producer` of confluent-kafka takes as it
is.
"""

from typing import Any, Final

import structlog

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.security import security_settings
from headwater.model.access import KafkaAccess
from headwater.model.outputs import MAX_RECORD_BYTES

ClientSettings = dict[str, Any]

MAX_POLL_INTERVAL_MS: Final = 120_000
"""A consumer that does not poll for this long loses its partitions."""

log = structlog.get_logger(__name__)


class LibraryLog:
    """Writes librdkafka's log at debug level.

    librdkafka repeats its lines several times a second in an outage. The code that waits for Kafka reports the outage
    itself.
    """

    def log(self, _level: int, message: str, *arguments: Any) -> None:
        """Write a printf-style message. confluent-kafka calls this."""
        log.debug("librdkafka", message=message % arguments if arguments else message)


def _settings(access: KafkaAccess, errors: ClientErrors) -> ClientSettings:
    settings: ClientSettings = {
        "bootstrap.servers": access.bootstrap_servers,
        "client.id": "headwater",
        "log.connection.close": False,
        "socket.keepalive.enable": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,  # the default, 10 s, would be most of the time of a recovery
        "logger": LibraryLog(),
        "error_cb": errors,
    }
    return settings | security_settings(access)


def admin_settings(access: KafkaAccess, errors: ClientErrors) -> ClientSettings:
    """Return the settings of an AdminClient."""
    return _settings(access, errors)


def consumer_settings(
    access: KafkaAccess, errors: ClientErrors, group: str, instance_id: str | None = None
) -> ClientSettings:
    """Return the settings of a consumer without auto-commit.

    At an offset that is out of range the consumer reports an error and does not skip records. `instance_id` makes the
    consumer a static member: its successor with the same id takes over the partitions without a rebalance.
    """
    settings = _settings(access, errors) | {
        "group.id": group,
        "group.protocol": "classic",  # with KIP-848 and the defaults of brokers, a killed member is noticed after 45 s
        "partition.assignment.strategy": "cooperative-sticky",
        # The minimum that brokers accept by default. A rebalance waits this long for each member that has ended without
        # leaving the group, and one restart of a broker can leave two such members behind.
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 2_000,
        "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "check.crcs": True,
        # A fetch request leaves out the partitions whose queue in the client is full, and the next request is sent only
        # after the response. While a request waits at the broker, the consumer has only the records in its queues.
        "fetch.wait.max.ms": 100,
        # Twice and four times these two sizes took more memory and were no faster.
        "max.partition.fetch.bytes": 1 << 20,
        "queued.max.messages.kbytes": 16 << 10,
        # librdkafka decompresses no record batch to more than this. `engine/partition_isolation.py` finds a partition
        # whose batches take more memory than a worker has.
        "receive.message.max.bytes": 1 << 30,
        "fetch.queue.backoff.ms": 10,  # the pause of fetching after a queue was full; a worker empties it in 20 ms
    }
    if instance_id is not None:
        settings["group.instance.id"] = instance_id
    return settings


def producer_settings(access: KafkaAccess, errors: ClientErrors, linger_ms: float) -> ClientSettings:
    """Return the settings of an idempotent Producer. `linger_ms` is `linger.ms`."""
    return _settings(access, errors) | {
        "enable.idempotence": True,
        # A broker accepts any first sequence number of a producer id that it does not know (KAFKA-15591), and
        # librdkafka then treats all earlier batches as stored (librdkafka issue 2501). With several requests in flight,
        # a first batch that fails, because a new topic has no leader yet or its leader is moving, would be lost without
        # an error.
        "max.in.flight.requests.per.connection": 1,
        "acks": "all",
        "linger.ms": linger_ms,
        "compression.type": "lz4",
        "batch.size": 1_000_000,
        # librdkafka counts the framing too. The limit of key, value and headers is checked before.
        "message.max.bytes": MAX_RECORD_BYTES + 4_000,
        "delivery.timeout.ms": 120_000,  # the producers of workers use other values
        "queue.buffering.max.kbytes": 128 << 10,
    }
