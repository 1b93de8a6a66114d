"""A reader beside the run, that checks what comes as it comes."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.chaos.account import Account
from tests.chaos.load import LAYOUTS, PARTITIONS, Layout
from tests.support.stalls import Stalls

AT_ONCE = 2_000
Settings = Mapping[str, Any]


class Witness:
    """Reads one topic from its beginning into `account`.

    newest_ms: the latest time of a source record that came out. ages_ms: from that time to the arrival here, of what
    was no repeat. came_at: when something came last. stalls: how often librdkafka had lost a partition (stalls.py).
    """

    def __init__(
        self, settings: Settings, topic: str, wanted: Callable[[int], list[bytes]], layout: Layout = LAYOUTS["kafka"]
    ) -> None:
        self._consumer = Consumer({**settings, "enable.partition.eof": True})
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        assert len(partitions) == PARTITIONS
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._topic, self._stalls = topic, Stalls(self._consumer, topic)
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
            self._mend()
        self._consumer.close()

    def _mend(self) -> None:
        for partition, offset in self._stalls.look(range(PARTITIONS)).items():
            self.stalls += 1
            anew = [TopicPartition(self._topic, partition, offset)]
            self._consumer.incremental_unassign(anew)
            self._consumer.incremental_assign(anew)

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
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(cast("int", message.partition()))
            else:
                assert error.retriable() or error.code() == KafkaError._TRANSPORT, error

    def _take(self, record: Message) -> None:
        headers = dict(cast("list[tuple[str, bytes]]", record.headers()))
        before = self.account.count
        self.account.take(headers["headwater-src"].decode(), cast("int", record.partition()), record.value() or b"")
        self.came_at = time.monotonic()
        if self.account.count > before:
            source_ms = record.timestamp()[1]
            self.newest_ms = max(self.newest_ms, source_ms)
            self.ages_ms[max(0, int(time.time() * 1000) - source_ms)] += 1
