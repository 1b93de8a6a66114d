"""The producer of at-least-once delivery, which sends records without a transaction."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.producer import NO_CODEC_OVERRIDES, LibrdkafkaProducer, require_topics
from headwater.model.access import KafkaAccess
from headwater.model.record import NO_HEADERS, Headers
from headwater.native.librdkafka import OutgoingBatch
from headwater.sinks.base import ProducerFailure
from headwater.sinks.outputs import OutputBatch
from headwater.sinks.sent_records import SentRecords
from headwater.sinks.stalled_producer import StalledProducerDetector

LINGER_MS: Final = 50
"""`linger.ms`: how long a record waits for further records, because larger requests are cheaper.

`flush` ends the wait.
"""
MAX_QUEUED_RECORDS: Final = 20_000
"""The limit of librdkafka's queue. A commit waits until the whole queue is acknowledged, so the queue is short."""
MAX_QUEUED_KILOBYTES: Final = 64 << 10
"""The limit of librdkafka's queue by size."""
MIN_FLUSH_S: Final = 0.005
"""The minimum duration of a flush with unacknowledged records, during which librdkafka sends lingering records."""
APPEND_BATCH: Final = 500
"""How many records `append` collects before it queues them together."""
CLOSE_FLUSH_S: Final = 2.0
"""How long `close` waits for requests in flight, so that no request arrives after requests of the next producer."""

_STALLED: Final = (
    "Kafka is reachable, but has acknowledged no record for {stalled_s:g} s. The worker replaces its Kafka client, and "
    "sends the records again."
)


class IdempotentKafkaProducer:
    """Implements sinks.base.Producer over librdkafka.

    Args:
        access: The Kafka cluster.
        topics: The topics that `connect` requires.
        codecs: The compression codec by topic, where it differs from that of the settings.
        one_record_per_batch: Whether to send each record in its own batch, so that a rejected batch identifies the
            record.
        stall_detector: Detects a stalled producer, which `take_failures` returns as a failure.
        headers: Further headers of each record that `produce` gets.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: Sequence[str],
        *,
        codecs: Mapping[str, str] = NO_CODEC_OVERRIDES,
        one_record_per_batch: bool = False,
        stall_detector: StalledProducerDetector | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        self._access = access
        self._headers = headers
        self._stall_detector = stall_detector
        self._topics = topics
        self._errors = ClientErrors(access)
        settings = producer_settings(access, self._errors, LINGER_MS) | {
            # Without this setting, records after a rejected one could be stored. The rejected record is read again, and
            # would then be written after them.
            "enable.gapless.guarantee": True,
            # Records never expire: later records would overtake an expired one.
            "delivery.timeout.ms": 0,
            "batch.num.messages": 1 if one_record_per_batch else 10_000,
            "queue.buffering.max.messages": MAX_QUEUED_RECORDS,
            "queue.buffering.max.kbytes": MAX_QUEUED_KILOBYTES,
        }
        self._client = LibrdkafkaProducer(settings, codecs)
        self._sent = SentRecords(one_record_per_batch=one_record_per_batch)
        self._waiting: deque[tuple[OutgoingBatch, int]] = deque()
        """Batches that are not completely in librdkafka's queue, each with its number of records."""
        self._waiting_records = 0
        self._has_failed = False
        self._appended: dict[str, list[tuple[bytes, bytes | None, int]]] = {}
        """By topic: records of `append`, as value, key and partition."""

    def connect(self, timeout_s: float) -> None:
        require_topics(self._client, self._topics, self._access, self._errors, timeout_s)

    def produce(self, outputs: OutputBatch) -> None:
        self._produce_appended()
        self._add_batch(outputs.with_headers(self._headers))

    def _add_batch(self, outputs: OutputBatch) -> None:
        if not len(outputs):
            return
        columns = outputs.values, outputs.keys, outputs.partitions, outputs.timestamps, outputs.headers
        first_record_id, outgoing = self._client.new_batch(outputs.topic, *columns)
        self._sent.add(first_record_id, outputs)
        self._waiting.append((outgoing, len(outputs)))
        self._waiting_records += len(outputs)
        self._fill_client_queue()

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        rows = self._appended.setdefault(topic, [])
        rows.append((value, key, partition))
        if len(rows) >= APPEND_BATCH:
            self._produce_appended()

    def _produce_appended(self) -> None:
        appended, self._appended = self._appended, {}
        for topic, rows in appended.items():
            values, keys, partitions = zip(*rows, strict=True)
            self._add_batch(OutputBatch.of(topic, values, keys, partitions, [0] * len(rows)))

    def _fill_client_queue(self) -> None:
        """Move waiting records into the client's queue while it has space."""
        while self._waiting and self._waiting[0][0].enqueue():
            self._waiting_records -= self._waiting.popleft()[1]

    def is_queue_full(self) -> bool:
        self._client.poll(0)
        self._fill_client_queue()
        return bool(self._waiting)

    def outstanding(self) -> int:
        self._client.poll(0)
        return self._count_outstanding()

    def _count_outstanding(self) -> int:
        appended = sum(map(len, self._appended.values()))
        return self._client.outstanding() + self._waiting_records + appended

    def flush(self, timeout_s: float) -> int:
        deadline = time.monotonic() + max(timeout_s, MIN_FLUSH_S)
        self._produce_appended()
        while (outstanding := self._count_outstanding()) and (left_s := deadline - time.monotonic()) > 0:
            if self._waiting:
                self._client.poll(left_s)
                self._fill_client_queue()
            else:
                self._client.flush(left_s)
        if not outstanding and not self._client.has_failures:
            self._sent.clear()
        return outstanding

    def take_failures(self) -> list[ProducerFailure]:
        self._client.poll(0)
        failures = [self._sent.producer_failure(failure) for failure in self._client.take_failures()]
        if not failures and not self._has_failed:
            failures = self._check_client()
        self._has_failed = self._has_failed or bool(failures)
        return failures

    def _check_client(self) -> list[ProducerFailure]:
        """Return the failure of the whole client, if it has failed or stalled."""
        if self._client.fatal is not None:
            return [ProducerFailure(f"The Kafka client has failed: {self._client.fatal.str()}.")]
        if self._stall_detector is None:
            return []
        stalled_s = self._stall_detector.update(self._client.acknowledged, self._count_outstanding())
        return [] if stalled_s is None else [ProducerFailure(_STALLED.format(stalled_s=stalled_s))]

    def close(self) -> None:
        if self._client.closed:
            return
        self._waiting.clear()
        self._client.purge(in_flight=False)
        self._client.flush(CLOSE_FLUSH_S)
        self._client.close()
        if self._stall_detector is not None:
            self._stall_detector.reset()
