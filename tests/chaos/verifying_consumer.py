"""A consumer that verifies the outputs of a run while they arrive."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.load import LAYOUTS, PARTITIONS, Layout
from tests.chaos.output_verifier import OutputVerifier

BATCH_RECORDS = 2_000
CHECK_EVERY_S = 30.0
REQUEST_S = 5.0
Settings = Mapping[str, Any]


class VerifyingConsumer:
    """Reads a topic from its beginning and passes each output to `verifier`.

    The consumer is replaced if Kafka was unavailable, or if librdkafka no longer fetches a partition after a change of
    its leader epoch (librdkafka issues 4492 and 5153).

    Attributes:
        newest_ms: The latest timestamp of a source record whose output has come.
        ages_ms: Counts the ages of outputs on arrival, without repeats.
        last_output_at: When the last output came, in monotonic seconds.
        stalls: How many times the consumer was replaced.
    """

    def __init__(
        self, settings: Settings, topic: str, expected: Callable[[int], list[bytes]], layout: Layout = LAYOUTS["kafka"]
    ) -> None:
        self._settings, self._topic = {**settings, "enable.partition.eof": True}, topic
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._before: dict[int, int] = {}
        self._next_check_at = time.monotonic() + CHECK_EVERY_S
        self._consumer = self._new_consumer()
        assert len(self._consumer.list_topics(topic, timeout=30).topics[topic].partitions) == PARTITIONS
        self._at_end: set[int] = set()
        self.verifier = OutputVerifier(expected, layout)
        self.newest_ms = 0
        self.ages_ms: Counter[int] = Counter()
        self.last_output_at = time.monotonic()
        self.stalls = 0

    def __call__(self, stop: threading.Event) -> None:
        """Read until `stop` is set, then close the consumer."""
        while not stop.is_set():
            self._read(0.05)
            if time.monotonic() >= self._next_check_at:
                self._replace_stalled_consumer()
        self._consumer.close()

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in self._next.items()])
        return consumer

    def _replace_stalled_consumer(self) -> None:
        """Replace the consumer if a partition has made no progress since the last check.

        The partition may have no more records.
        """
        self._next_check_at = time.monotonic() + CHECK_EVERY_S
        before, self._before = self._before, dict(self._next)
        if any(self._next[partition] == offset and self._has_more(partition) for partition, offset in before.items()):
            self.stalls += 1
            threading.Thread(target=self._consumer.close, daemon=True).start()  # `close` may hang
            self._consumer = self._new_consumer()

    def _has_more(self, partition: int) -> bool:
        """Return whether a partition has more records.

        Return True if the client cannot say this, because a new client may.
        """
        try:
            marks = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=REQUEST_S)
        except KafkaException:
            return True
        return marks is None or self._next[partition] < marks[1]

    def read_to_end(self) -> "VerifyingConsumer":
        """Read up to the end of all partitions, then close the consumer."""
        while len(self._at_end) < PARTITIONS:
            self._read(0.5)
        self._consumer.close()
        return self

    def _read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(BATCH_RECORDS, timeout_s):
            if (error := message.error()) is None:
                self._verify(message)
                self._advance(message, 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(cast("int", message.partition()))
                self._advance(message, 0)
            else:
                assert error.retriable() or error.code() == KafkaError._TRANSPORT, error

    def _advance(self, message: Message, records: int) -> None:
        """Set the next offset.

        At the end of a partition it is the end offset, since markers take offsets, too.
        """
        self._next[cast("int", message.partition())] = cast("int", message.offset()) + records

    def _verify(self, record: Message) -> None:
        headers = dict(cast("list[tuple[str, bytes]]", record.headers()))
        before = self.verifier.count
        self.verifier.add(headers["headwater-src"].decode(), cast("int", record.partition()), record.value() or b"")
        self.last_output_at = time.monotonic()
        if self.verifier.count > before:
            source_ms = record.timestamp()[1]
            self.newest_ms = max(self.newest_ms, source_ms)
            self.ages_ms[max(0, int(time.time() * 1000) - source_ms)] += 1
