"""The producer of exactly-once delivery, which writes in Kafka transactions.

A transaction contains records and positions. A transaction is open within `commit` only, so an open transaction waits
for nothing but Kafka. After any error that is not retriable, this producer must be replaced. The next producer with the
same transactional id completes or aborts the transaction and gets a higher epoch, so that delayed requests can't affect
a later transaction. (librdkafka implements version 1 of the transaction protocol, which does not distinguish
consecutive transactions of one epoch; see KIP-890.)
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.producer import NO_CODEC_OVERRIDES, LibrdkafkaProducer, TxnOffsetCommitData, require_topics
from headwater.errors import TransactionFailed
from headwater.model.access import KafkaAccess
from headwater.model.record import NO_HEADERS, Headers
from headwater.native.librdkafka import PartitionOffset
from headwater.sinks.base import ProducerFailure
from headwater.sinks.outputs import OutputBatch, values_bytes
from headwater.sinks.sent_records import SentRecords

TRANSACTION_TIMEOUT_S: Final = 15.0
"""`transaction.timeout.ms`. An open transaction of a dead worker blocks consumers that read committed records.

It does so for this long, plus up to 10 s until Kafka's next check, unless a successor of the worker ends it earlier.
"""
COMMIT_TIMEOUT_S: Final = 5.0
"""How long a transaction may take; less than half of TRANSACTION_TIMEOUT_S."""
ABORT_TIMEOUT_S: Final = 2.0
LINGER_MS: Final = 50.0
"""`linger.ms`: the records of a transaction are queued together, and a long linger makes their requests larger.

The commit ends the wait.
"""
QUEUE_FULL_WAIT_S: Final = 0.02
RETRY_DELAY_S: Final = 0.02

_SETTINGS: Final[dict[str, Any]] = {
    "queue.buffering.max.messages": 100_000,
    "transaction.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
    "delivery.timeout.ms": 10_000,  # librdkafka allows no more than the transaction's timeout
}


class TransactionalKafkaProducer:
    """Implements sinks.base.TransactionalProducer over librdkafka.

    Args:
        access: The Kafka cluster.
        topics: The topics that the producer writes to.
        source_topic: The topic whose positions `commit` stores.
        transactional_id: The transactional id. A new producer with this id fences the previous one.
        codecs: The compression codec by topic, where it differs from that of the settings.
        one_record_per_batch: Whether to send each record in its own batch, so that a rejected batch identifies the
            record.
        headers: Further headers of each record.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: Sequence[str],
        *,
        source_topic: str,
        transactional_id: str,
        codecs: Mapping[str, str] = NO_CODEC_OVERRIDES,
        one_record_per_batch: bool = False,
        headers: Headers = NO_HEADERS,
    ) -> None:
        self._access = access
        self._headers = headers
        self._topics = topics
        self._source_topic = source_topic
        self._pending: list[OutputBatch] = []
        self._errors = ClientErrors(access)
        settings = producer_settings(access, self._errors, LINGER_MS) | _SETTINGS
        settings |= {"transactional.id": transactional_id, "batch.num.messages": 1 if one_record_per_batch else 10_000}
        self._client = LibrdkafkaProducer(settings, codecs)
        self._sent = SentRecords(one_record_per_batch=one_record_per_batch)
        self._failures: list[ProducerFailure] = []
        self._is_open = False

    def connect(self, timeout_s: float) -> None:
        require_topics(self._client, self._topics, self._access, self._errors, timeout_s)

    def init_transactions(self, timeout_s: float) -> None:
        try:
            self._client.init_transactions(timeout_s)
        except KafkaException as error:
            self._client.poll(0)
            self._errors.check()
            raise broker_unavailable_error(error, self._access) from error

    def produce(self, outputs: OutputBatch) -> None:
        self._pending.append(outputs.with_headers(self._headers))

    def pending_records(self) -> int:
        return sum(map(len, self._pending))

    def pending_bytes(self) -> int:
        return values_bytes(self._pending)

    def drop_source_partitions(self, partitions: Collection[int]) -> None:
        self._pending = [outputs.without_source_partitions(partitions) for outputs in self._pending]

    def commit(self, positions: Mapping[int, int], group_metadata: Callable[[], object]) -> None:
        pending, self._pending = self._pending, []
        deadline = time.monotonic() + COMMIT_TIMEOUT_S
        self._sent.clear()
        self._is_open = True
        try:
            self._client.begin_transaction()
            for outputs in pending:
                self._enqueue(outputs, deadline)
            self._require_no_failures()
            if positions:
                # The group metadata is read just before it is sent: a rebalance may change it without a callback.
                _retry(
                    lambda left_s: self._send_offsets(positions, cast("TxnOffsetCommitData", group_metadata()), left_s),
                    deadline,
                )
            _retry(self._client.commit_transaction, deadline)
        except KafkaException as error:
            raise TransactionFailed(f"A transaction has failed: {error.args[0].str()}.") from error
        self._is_open = False

    def _require_no_failures(self) -> None:
        """Raise TransactionFailed if a record could not be queued, or its delivery has failed.

        librdkafka commits a transaction without the records that it rejected when they were queued. If a delivery
        fails later, `commit_transaction` fails, because librdkafka counts failed deliveries.
        """
        self._failures = self.take_failures()
        if self._failures:
            raise TransactionFailed(f"A transaction was not committed. {self._failures[0].reason}")

    def _enqueue(self, outputs: OutputBatch, deadline: float) -> None:
        """Move all records into the client's queue.

        Raises TransactionFailed when the queue has no space for some of the records until the deadline.
        """
        if not len(outputs):
            return
        columns = outputs.values, outputs.keys, outputs.partitions, outputs.timestamps, outputs.headers
        first_record_id, outgoing = self._client.new_batch(outputs.topic, *columns)
        self._sent.add(first_record_id, outputs)
        while not outgoing.enqueue():
            if time.monotonic() > deadline:
                raise TransactionFailed(
                    f"A transaction was not written within {COMMIT_TIMEOUT_S:g} s: Kafka accepts records too slowly."
                )
            self._client.poll(QUEUE_FULL_WAIT_S)

    def _send_offsets(self, positions: Mapping[int, int], group: TxnOffsetCommitData, left_s: float) -> None:
        offsets = [
            PartitionOffset(partition, position, group.epoch_before(partition, position), group.commit_metadata)
            for partition, position in positions.items()
        ]
        self._client.send_offsets(self._source_topic, offsets, group.group_metadata, left_s)

    def take_failures(self) -> list[ProducerFailure]:
        self._client.poll(0)
        failures, self._failures = self._failures, []
        return failures + [self._sent.producer_failure(failure) for failure in self._client.take_failures()]

    def close(self) -> None:
        self._pending.clear()
        if self._is_open:
            self._abort()
        self._client.close()

    def _abort(self) -> None:
        """Abort the open transaction, so that consumers need not wait for its timeout.

        If the abort fails, the next producer or the timeout ends the transaction.
        """
        try:
            self._client.abort_transaction(ABORT_TIMEOUT_S)
        except KafkaException:
            return
        self._is_open = False


def _retry(step: Callable[[float], object], deadline: float) -> None:
    """Run one step of a transaction, and repeat it while its error is retriable."""
    retrying = Retrying(
        retry=retry_if_exception(_is_retriable),
        stop=stop_after_delay(deadline - time.monotonic()),
        wait=wait_fixed(RETRY_DELAY_S),
        reraise=True,
    )
    retrying(lambda: step(max(0.1, deadline - time.monotonic())))


def _is_retriable(error: BaseException) -> bool:
    if not isinstance(error, KafkaException):
        return False
    cause: KafkaError = error.args[0]
    return cause.retriable() and cause.code() != KafkaError._TIMED_OUT
