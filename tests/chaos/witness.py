"""A reader beside the run, that checks what comes as it comes."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.account import Account
from tests.chaos.load import LAYOUTS, PARTITIONS, Layout

AT_ONCE = 2_000
LOOK_EVERY_S = 30.0
REQUEST_S = 5.0
Settings = Mapping[str, Any]


class Witness:
    """Reads one topic from its beginning into `account`.

    newest_ms: the latest time of a source record that came out. ages_ms: from that time to the arrival here, of what
    was no repeat. came_at: when something came last. stalls: how often the consumer had to be replaced: Kafka
    was away, or librdkafka lost a partition on the way to a new leader epoch (its issues 4492 and 5153).
    """

    def __init__(
        self, settings: Settings, topic: str, wanted: Callable[[int], list[bytes]], layout: Layout = LAYOUTS["kafka"]
    ) -> None:
        self._settings, self._topic = {**settings, "enable.partition.eof": True}, topic
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._before: dict[int, int] = {}
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._consumer = self._reader()
        assert len(self._consumer.list_topics(topic, timeout=30).topics[topic].partitions) == PARTITIONS
        self._at_end: set[int] = set()
        self.account = Account(wanted, layout)
        self.newest_ms = 0
        self.ages_ms: Counter[int] = Counter()
        self.came_at = time.monotonic()
        self.stalls = 0

    def __call__(self, stop: threading.Event) -> None:
        """Read until told to stop, and leave."""
        while not stop.is_set():
            self._read(0.05)
            if time.monotonic() >= self._look_at:
                self._look()
        self._consumer.close()

    def _reader(self) -> Consumer:
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in self._next.items()])
        return consumer

    def _look(self) -> None:
        """Begin anew when a partition has stood still since the last look although there is more, or may be."""
        self._look_at = time.monotonic() + LOOK_EVERY_S
        before, self._before = self._before, dict(self._next)
        if any(self._next[partition] == offset and self._has_more(partition) for partition, offset in before.items()):
            self.stalls += 1
            threading.Thread(target=self._consumer.close, daemon=True).start()  # it may not answer any more
            self._consumer = self._reader()

    def _has_more(self, partition: int) -> bool:
        """True as well when this client is not told: a new one may be."""
        try:
            marks = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=REQUEST_S)
        except KafkaException:
            return True
        return marks is None or self._next[partition] < marks[1]

    def read_to_the_end(self) -> "Witness":
        """Take in all that there is, and leave."""
        while len(self._at_end) < PARTITIONS:
            self._read(0.5)
        self._consumer.close()
        return self

    def _read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(AT_ONCE, timeout_s):
            if (error := message.error()) is None:
                self._take(message)
                self._came_to(message, 1)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(cast("int", message.partition()))
                self._came_to(message, 0)
            else:
                assert error.retriable() or error.code() == KafkaError._TRANSPORT, error

    def _came_to(self, message: Message, behind: int) -> None:
        """The end of a partition is told by its offset; the marks of transactions before it are no records."""
        self._next[cast("int", message.partition())] = cast("int", message.offset()) + behind

    def _take(self, record: Message) -> None:
        headers = dict(cast("list[tuple[str, bytes]]", record.headers()))
        before = self.account.count
        self.account.take(headers["headwater-src"].decode(), cast("int", record.partition()), record.value() or b"")
        self.came_at = time.monotonic()
        if self.account.count > before:
            source_ms = record.timestamp()[1]
            self.newest_ms = max(self.newest_ms, source_ms)
            self.ages_ms[max(0, int(time.time() * 1000) - source_ms)] += 1
