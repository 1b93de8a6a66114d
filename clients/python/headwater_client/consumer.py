"""Reads the topic of a sink with the credentials of a deployment."""

import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headwater_client.errors import ConnectionFailed, MissingExtra

if TYPE_CHECKING:
    import confluent_kafka

    from headwater_client.models.deployment import SinkConnection

log = logging.getLogger(__name__)

BATCH_RECORDS = 500
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record of a sink's topic, as Kafka has it."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]

    @property
    def record(self) -> Any:
        """The JSON value, with all digits of its integers; None for a record without a value."""
        return msgspec.json.decode(self.value) if self.value else None

    @property
    def source(self) -> str:
        """The header `headwater-src`: a repeat of a record has the same one."""
        return self.headers.get("headwater-src", b"").decode()


def kafka_settings(sink: "SinkConnection", group: str, start: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of librdkafka for a consumer of a sink's topic."""
    values = {
        "bootstrap.servers": sink.bootstrap_servers,
        "security.protocol": sink.security_protocol,
        "sasl.mechanism": sink.sasl_mechanism,
        "sasl.username": sink.username,
        "sasl.password": sink.password,
        # The credentials allow only groups whose names begin with the prefix of the deployment.
        "group.id": f"{sink.consumer_group.rpartition('.')[0]}.{group}",
        "auto.offset.reset": start,
        "isolation.level": "read_committed",
        "enable.auto.offset.store": False,
        "client.id": "headwater-client",
        "error_cb": _log_error,
        **settings,
    }
    return {name: value for name, value in values.items() if value is not None}


def consume(
    sink: "SinkConnection", group: str, start: str, idle_s: float | None, settings: Mapping[str, Any]
) -> Iterator[ConsumedRecord]:
    """Yield the records of a sink's topic."""
    with contextlib.closing(_consumer(sink, group, start, settings)) as consumer:
        idle_since = time.monotonic()
        while idle_s is None or time.monotonic() < idle_since + idle_s:
            for message in without_errors(consumer.consume(BATCH_RECORDS, POLL_S)):
                yield _record(message)
                _store_offset(consumer, message)
                idle_since = time.monotonic()


async def consume_async(
    sink: "SinkConnection", group: str, start: str, idle_s: float | None, settings: Mapping[str, Any]
) -> AsyncGenerator[ConsumedRecord, None]:
    """Yield the records of a sink's topic; a thread waits for them."""
    import asyncio

    consumer = _consumer(sink, group, start, settings)
    try:
        idle_since = time.monotonic()
        while idle_s is None or time.monotonic() < idle_since + idle_s:
            for message in without_errors(await asyncio.to_thread(consumer.consume, BATCH_RECORDS, POLL_S)):
                yield _record(message)
                _store_offset(consumer, message)
                idle_since = time.monotonic()
    finally:
        await asyncio.shield(asyncio.to_thread(consumer.close))


def _consumer(
    sink: "SinkConnection", group: str, start: str, settings: Mapping[str, Any]
) -> "confluent_kafka.Consumer":
    try:
        from confluent_kafka import Consumer
    except ImportError:
        raise MissingExtra("consume() needs confluent-kafka: pip install 'headwater-client[kafka]'") from None
    consumer = Consumer(kafka_settings(sink, group, start, settings))
    consumer.subscribe([sink.topic])
    return consumer


def without_errors(messages: Iterable["confluent_kafka.Message"]) -> Iterator["confluent_kafka.Message"]:
    """Yield the messages that are records.

    Raises ConnectionFailed for a fatal error; librdkafka handles the others.
    """
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.fatal():
            raise ConnectionFailed(f"Kafka: {error.str()}")
        else:
            _log_error(error)


def _store_offset(consumer: "confluent_kafka.Consumer", message: "confluent_kafka.Message") -> None:
    """Let the next commit include the message, unless another consumer has the partition."""
    from confluent_kafka import KafkaException

    with contextlib.suppress(KafkaException):
        consumer.store_offsets(message)


def _log_error(error: "confluent_kafka.KafkaError") -> None:
    log.warning("Kafka: %s", error.str())


def _record(message: "confluent_kafka.Message") -> ConsumedRecord:
    """Return the record of a message."""
    kind, milliseconds = message.timestamp()
    return ConsumedRecord(
        topic=message.topic() or "",
        partition=_or_unknown(message.partition()),
        offset=_or_unknown(message.offset()),
        timestamp=datetime.fromtimestamp(milliseconds / 1000, UTC) if kind else None,
        key=_bytes(message.key()),
        value=_bytes(message.value()) or b"",
        headers={name: _bytes(value) or b"" for name, value in _header_pairs(message)},
    )


def _header_pairs(message: "confluent_kafka.Message") -> list[tuple[str, Any]]:
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else [(str(name), value) for name, value in headers]


def _or_unknown(number: int | None) -> int:
    """Return a number; -1 when librdkafka does not know it."""
    return -1 if number is None else number


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
