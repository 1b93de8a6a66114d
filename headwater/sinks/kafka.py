"""Kafka as a sink: one sink per topic, and the producer that all sinks of a worker share."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from headwater.brokers.client import ClientErrors, producer_settings, unavailable
from headwater.model.record import Failure, Headers, RecordBatch
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.model.worker import KafkaAccess, SinkSpec
from headwater.sinks.base import CONFIG_HEADER, MAX_RECORD_BYTES, SOURCE_HEADER, Producer, oversize

DRAIN_S = 2.0
"""How long a closing producer waits for requests that are on their way, so that none arrives after its successor's."""

LINGER_MS = 5.0
SETTINGS: dict[str, Any] = {
    # A refused record stops the ones behind it, so that reading all of them again keeps the order.
    "enable.gapless.guarantee": True,
    # librdkafka counts its framing too; `oversize` is the rule.
    "message.max.bytes": MAX_RECORD_BYTES + 4_000,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 100_000,
}

_Row = tuple[str, bytes | None, bytes | None, int, None, None, int, Any]
"""The arguments of librdkafka's produce; its stubs want a list of wider pairs than ours, hence Any."""


class KafkaSink:
    """Implements sinks.base.Sink: a record keeps its key and time, and goes to the partition number it came from."""

    def __init__(self, name: str, topic: str, revision: int) -> None:
        self.name = name
        self._topic = topic
        self._config = (CONFIG_HEADER, b"%d" % revision)

    def send(self, batch: RecordBatch, producer: Producer) -> list[Failure]:
        topic, config, produce = self._topic, self._config, producer.produce
        source = batch.topic.encode()
        failures: list[Failure] = []
        columns = zip(
            batch.values, batch.keys, batch.partitions, batch.timestamps, batch.offsets, batch.indexes, strict=True
        )
        for row, (value, key, partition, timestamp, offset, index) in enumerate(columns):
            headers = [(SOURCE_HEADER, b"%b/%d/%d/%d" % (source, partition, offset, index)), config]
            if (
                len(value or b"") + len(key or b"") > MAX_OUTPUT_BYTES
                and (fault := oversize(value, key, headers)) is not None
            ):
                failures.append(Failure(row, "TooLarge", fault, self.name))
            else:
                produce(topic, value, key, partition, timestamp, headers)
        return failures


class KafkaProducer:
    """Implements sinks.base.Producer over librdkafka. topics: all that will be written to."""

    def __init__(self, access: KafkaAccess, topics: Sequence[str]) -> None:
        self._access = access
        self._topics = topics
        self._failed: list[str] = []
        self._overflow: deque[_Row] = deque()
        self._errors = ClientErrors(access)
        settings = producer_settings(access, self._errors, LINGER_MS, self._on_failure)
        self._client = confluent_kafka.Producer(settings | SETTINGS)

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(f"{message.topic()}, partition {message.partition()}: {error.str()}")

    def connect(self, timeout_s: float) -> None:
        for topic in self._topics:
            try:
                found = self._client.list_topics(topic, timeout=timeout_s).topics[topic]
            except KafkaException as error:
                self._client.poll(0)
                self._errors.check()
                raise unavailable(error, self._access) from error
            if found.error is not None:
                raise unavailable(found.error, self._access)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        row: _Row = (topic, value, key, partition, None, None, timestamp_ms, headers)
        if self._overflow or not self._offer(row):
            self._overflow.append(row)

    def _offer(self, row: _Row) -> bool:
        """Hand a row to the client; False when its queue is full."""
        try:
            self._client.produce(*row)
        except BufferError:
            return False
        except KafkaException as error:
            self._failed.append(f"{row[0]}, partition {row[3]}: {error.args[0].str()}")
        return True

    def saturated(self) -> bool:
        self._serve(self._client.poll, 0)
        self._drain()
        return bool(self._overflow)

    def _drain(self) -> None:
        while self._overflow and self._offer(self._overflow[0]):
            self._overflow.popleft()

    def flush(self, timeout_s: float) -> int:
        self._drain()
        return self._serve(self._client.flush, timeout_s) + len(self._overflow)

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Poll or flush. A client that has given up raises in both: then nothing more will be acknowledged."""
        try:
            return call(timeout_s)
        except KafkaException as error:
            self._failed.append(error.args[0].str())
            self._overflow.clear()
            return 0

    def failures(self) -> list[str]:
        failed, self._failed = self._failed, []
        return failed

    def close(self) -> None:
        self._overflow.clear()
        self._client.purge(in_queue=True, in_flight=False)
        if self.flush(DRAIN_S):
            self._client.purge()
            self.flush(DRAIN_S)


def build(spec: SinkSpec, revision: int) -> KafkaSink:
    """The sink of a worker spec."""
    return KafkaSink(spec.name, spec.topic, revision)
