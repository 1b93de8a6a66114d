"""The librdkafka producer that workers use: it sends columns of records.

With `transactional.id` in its settings it sends them in transactions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import ClientSettings
from headwater.brokers.librdkafka_client import PRODUCER, LibrdkafkaClient
from headwater.model.access import KafkaAccess
from headwater.native.bytes_column import BytesColumn
from headwater.native.ffi import FFI, NULL, Column
from headwater.native.librdkafka import (
    DeliveryFailure,
    EventQueue,
    HeaderColumn,
    OutgoingBatch,
    PartitionList,
    PartitionOffset,
    decode_c_string,
    to_milliseconds,
)

NO_CODEC_OVERRIDES: Final = MappingProxyType[str, str]({})
"""The codecs of a producer that compresses the records of all topics with the codec of its settings."""
DEFAULT_MAX_QUEUED_RECORDS: Final = 100_000
"""librdkafka's default of `queue.buffering.max.messages`."""
_PURGE_QUEUED, _PURGE_IN_FLIGHT = 1, 2


class TxnOffsetCommitData(NamedTuple):
    """The data with which a transaction commits offsets for a consumer group.

    Attributes:
        group_metadata: The result of `LibrdkafkaConsumer.group_metadata`: the group, its generation and the member.
        commit_metadata: The metadata that is stored with each offset.
        epoch_before: Takes a partition and an offset, and returns the leader epoch of the record before the offset; -1
            when it is not known. Kafka stores the epoch with the offset, to detect a truncated log later (KIP-320).
    """

    group_metadata: object
    commit_metadata: str
    epoch_before: Callable[[int, int], int]


class LibrdkafkaProducer(LibrdkafkaClient):
    """A librdkafka producer. Not thread-safe. All methods may raise KafkaException.

    Args:
        settings: As for LibrdkafkaClient.
        codecs: The compression codec by topic, for topics whose codec differs from that of the settings.
    """

    def __init__(self, settings: ClientSettings, codecs: Mapping[str, str] = NO_CODEC_OVERRIDES) -> None:
        max_queued_records = settings.get("queue.buffering.max.messages", DEFAULT_MAX_QUEUED_RECORDS)
        super().__init__(PRODUCER, settings, EventQueue(max_queued_records))
        self._codecs = codecs
        self._topics: dict[str, Any] = {}
        self._failures: list[DeliveryFailure] = []
        self._next_record_id = 0

    def topic_errors(self, topics: Iterable[str], timeout_s: float) -> dict[str, int]:
        """Return the error code of each topic that can't be written to, from a metadata request."""
        functions = self._librdkafka
        names = [*topics]
        for name in names:
            self._topic(name)  # librdkafka requests the metadata of the topics that it knows
        metadata = FFI.new("const rd_kafka_metadata_t **")
        self.poll(0)
        code = functions.rd_kafka_metadata(self._client, 0, NULL, metadata, to_milliseconds(timeout_s))
        self.poll(0)
        self._check(code)
        try:
            described = (metadata[0].topics[i] for i in range(metadata[0].topic_cnt))
            codes = {decode_c_string(topic.topic): topic.err for topic in described}
        finally:
            functions.rd_kafka_metadata_destroy(metadata[0])
        errors = {name: codes.get(name, KafkaError.UNKNOWN_TOPIC_OR_PART) for name in names}
        return {name: code for name, code in errors.items() if code}

    def _topic(self, name: str) -> Any:
        if name not in self._topics:
            self._topics[name] = self._new_topic(name)
        return self._topics[name]

    def _new_topic(self, name: str) -> Any:
        functions, conf = self._librdkafka, NULL
        if codec := self._codecs.get(name):
            conf, reason = functions.rd_kafka_topic_conf_new(), FFI.new("char[]", 512)
            code = functions.rd_kafka_topic_conf_set(conf, b"compression.codec", codec.encode(), reason, 512)
            assert code == 0, decode_c_string(reason)
        topic = functions.rd_kafka_topic_new(self._client, name.encode(), conf)
        assert topic != NULL, f"librdkafka rejects the topic {name}"
        return topic

    # Records.

    def new_batch(
        self,
        topic: str,
        values: BytesColumn,
        keys: BytesColumn,
        partitions: Column,
        timestamps: Column,
        headers: Sequence[HeaderColumn] = (),
    ) -> tuple[int, OutgoingBatch]:
        """Create a batch of records, to be queued with `OutgoingBatch.enqueue`.

        Returns the id of the first record and the batch. The columns are described in OutgoingBatch.
        """
        first_record_id = self._next_record_id
        self._next_record_id += len(values)
        columns = values, keys, partitions, timestamps, headers
        batch = OutgoingBatch(self._events, self._client, self._topic(topic), first_record_id, *columns)
        return first_record_id, batch

    def outstanding(self) -> int:
        """Return the number of records that are not acknowledged.

        The number includes queued records, and records whose delivery report was not polled yet.
        """
        return int(self._librdkafka.rd_kafka_outq_len(self._client))

    @property
    def acknowledged(self) -> int:
        """How many records the brokers have acknowledged. `poll` and `flush` update it."""
        return self._events.acknowledged

    def poll(self, timeout_s: float) -> None:
        """Handle delivery reports; wait at most `timeout_s` for the first."""
        self._librdkafka.rd_kafka_poll(self._client, to_milliseconds(timeout_s))
        self._handle_events()

    def flush(self, timeout_s: float) -> int:
        """Send all queued records without lingering, and wait for their acknowledgements.

        Returns the number of records that are not acknowledged.
        """
        self._librdkafka.rd_kafka_flush(self._client, to_milliseconds(timeout_s))
        self._handle_events()
        return self.outstanding()

    @property
    def has_failures(self) -> bool:
        """Whether `take_failures` would return a failure."""
        return bool(self._failures)

    def take_failures(self) -> list[DeliveryFailure]:
        """Return the records that failed since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def _handle_events(self) -> None:
        super()._handle_events()
        self._failures += self._events.take_failures()

    # Transactions.

    def init_transactions(self, timeout_s: float) -> None:
        """Initialize transactions.

        Aborts or completes an open transaction of the previous producer with this transactional id, and fences that
        producer.
        """
        self._check_error(self._librdkafka.rd_kafka_init_transactions(self._client, to_milliseconds(timeout_s)))

    def begin_transaction(self) -> None:
        """Begin a transaction. Records that are queued from now on are part of it."""
        self._check_error(self._librdkafka.rd_kafka_begin_transaction(self._client))

    def send_offsets(
        self, topic: str, offsets: Iterable[PartitionOffset], group_metadata: Any, timeout_s: float
    ) -> None:
        """Commit a consumer group's offsets with the transaction.

        `group_metadata` is the result of `LibrdkafkaConsumer.group_metadata`.
        """
        send: Callable[..., Any] = self._librdkafka.rd_kafka_send_offsets_to_transaction
        with PartitionList(topic, offsets) as partitions:
            self._check_error(send(self._client, partitions.struct, group_metadata, to_milliseconds(timeout_s)))

    def commit_transaction(self, timeout_s: float) -> None:
        """Send all queued records, and commit the transaction."""
        error = self._librdkafka.rd_kafka_commit_transaction(self._client, to_milliseconds(timeout_s))
        self._handle_events()
        self._check_error(error)

    def abort_transaction(self, timeout_s: float) -> None:
        """Drop all queued records, and abort the transaction."""
        self.purge()
        error = self._librdkafka.rd_kafka_abort_transaction(self._client, to_milliseconds(timeout_s))
        self._handle_events()
        self._check_error(error)

    def purge(self, *, in_flight: bool = True) -> None:
        """Drop queued records.

        With `in_flight`, also stop waiting for the acknowledgement of records already sent.
        """
        flags = _PURGE_QUEUED | (_PURGE_IN_FLIGHT if in_flight else 0)
        self._check(self._librdkafka.rd_kafka_purge(self._client, flags))

    def close(self) -> None:
        """Free the client. Queued records are dropped."""
        if self.closed:
            return
        self.purge()
        for topic in self._topics.values():
            self._librdkafka.rd_kafka_topic_destroy(topic)
        self._topics.clear()
        self._destroy()


def require_topics(
    producer: LibrdkafkaProducer, topics: Iterable[str], access: KafkaAccess, errors: ClientErrors, timeout_s: float
) -> None:
    """Return when the broker answers and has all topics. Raises BrokerUnavailable."""
    try:
        topic_errors = producer.topic_errors(topics, timeout_s)
    except KafkaException as error:
        errors.check()
        raise broker_unavailable_error(error, access) from error
    if codes := [*topic_errors.values()]:
        raise broker_unavailable_error(KafkaError(codes[0]), access)
