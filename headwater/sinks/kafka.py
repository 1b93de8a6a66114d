"""Kafka as a sink: one sink per topic, and the producer that all sinks of a worker share."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from headwater.brokers.client import ClientErrors, producer_settings, unavailable
from headwater.model.record import Failure, RecordBatch, SourceNames, position_names
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.model.worker import KafkaAccess, SinkSpec
from headwater.sinks.base import (
    MAX_RECORD_BYTES,
    SOURCE_HEADER,
    Row,
    Writer,
    oversize,
    source_ids,
    times_to_write,
)

DRAIN_S = 2.0
"""How long a closing producer waits for requests that are on their way, so that none arrives after its successor's."""

LINGER_MS = 50.0
"""Under load: larger requests are cheaper. Else `push` ends the wait."""
PUSH_S = 0.001
PUSH_EVERY_S = 0.005
SETTINGS: dict[str, Any] = {
    # A refused record stops the ones behind it, so that reading all of them again keeps the order.
    "enable.gapless.guarantee": True,
    # librdkafka counts its framing too; `oversize` is the rule.
    "message.max.bytes": MAX_RECORD_BYTES + 4_000,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 100_000,
}


class KafkaSink:
    """Implements sinks.base.Sink: a record keeps its key, and goes to the partition number that it came from."""

    def __init__(self, name: str, topic: str, names: SourceNames = position_names) -> None:
        self.name = name
        self._topic = topic
        self._names = names

    def send(self, batch: RecordBatch, producer: Writer) -> list[Failure]:
        failures = self._too_large(batch)
        if failures:
            refused = {failure.row for failure in failures}
            batch = batch.select([row not in refused for row in range(len(batch))])
        headers = [[(SOURCE_HEADER, origin)] for origin in source_ids(batch, self._names)]
        producer.produce(
            zip(
                repeat(self._topic),
                batch.values,
                batch.keys,
                batch.partitions,
                times_to_write(batch.timestamps),
                headers,
                strict=False,
            )
        )
        return failures

    def _too_large(self, batch: RecordBatch) -> list[Failure]:
        """The records that the topic can't take: looks at each one only when some are large."""
        largest = max(map(len, filter(None, batch.values)), default=0) + max(
            map(len, filter(None, batch.keys)), default=0
        )
        if largest <= MAX_OUTPUT_BYTES:
            return []
        faults = [self._fault(batch, *row) for row in enumerate(source_ids(batch, self._names))]
        return [Failure(row, "TooLarge", fault, self.name) for row, fault in enumerate(faults) if fault is not None]

    def _fault(self, batch: RecordBatch, row: int, origin: bytes) -> str | None:
        return oversize(batch.values[row], batch.keys[row], [(SOURCE_HEADER, origin)])


def require_topics(
    client: confluent_kafka.Producer, topics: Sequence[str], access: KafkaAccess, errors: ClientErrors, timeout_s: float
) -> None:
    """Return when the broker answers and has all topics. Raises BrokerUnavailable."""
    for topic in topics:
        try:
            found = client.list_topics(topic, timeout=timeout_s).topics[topic]
        except KafkaException as error:
            client.poll(0)
            errors.check()
            raise unavailable(error, access) from error
        if found.error is not None:
            raise unavailable(found.error, access)


class KafkaProducer:
    """Implements sinks.base.Producer over librdkafka. topics: all that will be written to."""

    def __init__(self, access: KafkaAccess, topics: Sequence[str]) -> None:
        self._access = access
        self._topics = topics
        self._failed: list[str] = []
        self._overflow: list[Row] = []
        self._push_at = float("-inf")
        self._errors = ClientErrors(access)
        settings = producer_settings(access, self._errors, LINGER_MS, self._on_failure)
        self._client = confluent_kafka.Producer(settings | SETTINGS)
        # Any: the stubs want a list of wider pairs than ours for the headers.
        self._produce: Callable[..., Any] = self._client.produce

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(f"{message.topic()}, partition {message.partition()}: {error.str()}")

    def connect(self, timeout_s: float) -> None:
        require_topics(self._client, self._topics, self._access, self._errors, timeout_s)

    def produce(self, rows: Iterable[Row]) -> None:
        left = iter(rows)
        if not self._overflow:
            self._queue(left)
        self._overflow += left

    def _queue(self, rows: Iterator[Row]) -> None:
        """Queue records until there is no room for one; that one overflows."""
        produce = self._produce
        for row in rows:
            topic, value, key, partition, timestamp_ms, headers = row
            try:
                produce(topic, value, key, partition, None, None, timestamp_ms, headers)
            except BufferError:
                self._overflow.append(row)
                return
            except KafkaException as error:
                self._failed.append(f"{topic}, partition {partition}: {error.args[0].str()}")

    def push(self) -> None:
        if not len(self._client) or time.monotonic() < self._push_at:
            return
        self._serve(self._client.flush, PUSH_S)
        self._push_at = time.monotonic() + PUSH_EVERY_S

    def saturated(self) -> bool:
        self._serve(self._client.poll, 0)
        self._drain()
        return bool(self._overflow)

    def _drain(self) -> None:
        waiting, self._overflow = self._overflow, []
        self.produce(waiting)

    def outstanding(self) -> int:
        self._serve(self._client.poll, 0)  # the length counts events of the client too, until they are served
        return len(self._client) + len(self._overflow)

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


def build(spec: SinkSpec, names: SourceNames) -> KafkaSink:
    """The sink of a worker spec."""
    return KafkaSink(spec.name, spec.topic, names)
