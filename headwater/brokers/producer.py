"""A producer of columns of records, with transactions if its settings name a transactional id."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError

from headwater.brokers.client import ClientSettings
from headwater.brokers.handle import PRODUCER, Handle, milliseconds
from headwater.native.kafka import Event, Header, PartitionList, Place, Sending, text_of
from headwater.native.library import FFI, NULL, Column
from headwater.native.texts import Texts

NO_CODECS: Final = MappingProxyType[str, str]({})
_QUEUED, _IN_FLIGHT = 1, 2


class DeliveryFailure(NamedTuple):
    """A record that is not on its topic. row: the number that `start` gave it; code: librdkafka's.

    text: what is wrong with a record that librdkafka refused at once; else empty.
    """

    row: int
    code: int
    text: str


class Producer(Handle):
    """One thread uses it. codecs: by topic, the compression of its records where that is another than the settings'.

    Calls raise KafkaException.
    """

    def __init__(self, settings: ClientSettings, codecs: Mapping[str, str] = NO_CODECS) -> None:
        super().__init__(PRODUCER, settings)
        self._codecs = codecs
        self._topics: dict[str, Any] = {}
        self._failures: list[DeliveryFailure] = []
        self._rows = 0

    def topic_errors(self, topics: Iterable[str], timeout_s: float) -> dict[str, int]:
        """The error codes of topics that can't be written to, as a broker tells them."""
        wanted, functions = {name: self._topic(name) for name in topics}, self._library
        found = FFI.new("const rd_kafka_metadata_t **")
        self.poll(0)
        code = functions.rd_kafka_metadata(self._client, 0, NULL, found, milliseconds(timeout_s))
        self.poll(0)
        self._check(code)
        try:
            told = {text_of(found[0].topics[i].topic): found[0].topics[i].err for i in range(found[0].topic_cnt)}
        finally:
            functions.rd_kafka_metadata_destroy(found[0])
        errors = {name: told.get(name, KafkaError.UNKNOWN_TOPIC_OR_PART) for name in wanted}
        return {name: code for name, code in errors.items() if code}

    def _topic(self, name: str) -> Any:
        if name not in self._topics:
            self._topics[name] = self._new_topic(name)
        return self._topics[name]

    def _new_topic(self, name: str) -> Any:
        functions, conf = self._library, NULL
        if codec := self._codecs.get(name):
            conf, reason = functions.rd_kafka_topic_conf_new(), FFI.new("char[]", 512)
            code = functions.rd_kafka_topic_conf_set(conf, b"compression.codec", codec.encode(), reason, 512)
            assert code == 0, text_of(reason)
        topic = functions.rd_kafka_topic_new(self._client, name.encode(), conf)
        assert topic != NULL, f"librdkafka takes no topic {name}"
        return topic

    # Records.

    def start(
        self,
        topic: str,
        values: Texts,
        keys: Texts,
        partitions: Column,
        timestamps: Column,
        headers: Sequence[Header] = (),
    ) -> tuple[int, Sending]:
        """Records to be queued, by `Sending.advance`, and the number of the first one."""
        first_row = self._rows
        self._rows += len(values)
        columns = values, keys, partitions, timestamps, headers
        return first_row, Sending(self._events, self._client, self._topic(topic), first_row, *columns)

    def outstanding(self) -> int:
        """How many queued records, and reports of failures, nobody has heard of yet."""
        return int(self._library.rd_kafka_outq_len(self._client))

    @property
    def acknowledged(self) -> int:
        """How many records brokers have acknowledged so far, as far as `poll` and `flush` have heard of it."""
        return self._events.acknowledged

    def poll(self, timeout_s: float) -> None:
        """Hear of failures; waits for the first at most `timeout_s`."""
        self._library.rd_kafka_poll(self._client, milliseconds(timeout_s))
        self._take_events()

    def flush(self, timeout_s: float) -> int:
        """Send what is queued at once, and wait for its acknowledgement; `outstanding` then."""
        self._library.rd_kafka_flush(self._client, milliseconds(timeout_s))
        self._take_events()
        return self.outstanding()

    @property
    def has_failures(self) -> bool:
        """True when `failures` has something to tell."""
        return bool(self._failures)

    def failures(self) -> list[DeliveryFailure]:
        """The records that failed since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def _take(self, event: Event) -> None:
        self._failures.append(DeliveryFailure(event.row, event.code, event.text))

    # Transactions.

    def init_transactions(self, timeout_s: float) -> None:
        """Take over the transactional id: ends what its last user left open, and shuts that one out."""
        self._check_error(self._library.rd_kafka_init_transactions(self._client, milliseconds(timeout_s)))

    def begin_transaction(self) -> None:
        """Begin one. Records that are queued from now on are part of it."""
        self._check_error(self._library.rd_kafka_begin_transaction(self._client))

    def send_offsets(self, topic: str, offsets: Iterable[Place], group: Any, timeout_s: float) -> None:
        """Store a group's positions with the transaction. group: `Consumer.group_metadata`."""
        call: Callable[..., Any] = self._library.rd_kafka_send_offsets_to_transaction
        with PartitionList(topic, offsets) as positions:
            self._check_error(call(self._client, positions.struct, group, milliseconds(timeout_s)))

    def commit_transaction(self, timeout_s: float) -> None:
        """Send all that is queued, and commit."""
        error = self._library.rd_kafka_commit_transaction(self._client, milliseconds(timeout_s))
        self._take_events()
        self._check_error(error)

    def abort_transaction(self, timeout_s: float) -> None:
        """Drop all that is queued, and abort."""
        self.purge()
        error = self._library.rd_kafka_abort_transaction(self._client, milliseconds(timeout_s))
        self._take_events()
        self._check_error(error)

    def purge(self, *, in_flight: bool = True) -> None:
        """Drop what is queued; of what is on its way, give up the acknowledgement."""
        self._check(self._library.rd_kafka_purge(self._client, _QUEUED | (_IN_FLIGHT if in_flight else 0)))

    def close(self) -> None:
        """Free the client. What is queued is dropped."""
        if self.closed:
            return
        self.purge()
        for topic in self._topics.values():
            self._library.rd_kafka_topic_destroy(topic)
        self._topics.clear()
        self._destroy()
