"""Readers that remember: what a topic holds, in which order, and what was repeated."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.chaos.load import Load

AT_ONCE = 2_000
Settings = Mapping[str, Any]


def place(partition: int, offset: int, output: int) -> int:
    """A source position and output number as one number, in their order."""
    return partition << 56 | offset << 8 | output


class Topic:
    """Reads a topic from its beginning. `ended` once it has seen the end of each partition."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._consumer = Consumer({**settings, "enable.partition.eof": True})
        self._partitions = list(self._consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in self._partitions])
        self._at_end: set[int] = set()

    @property
    def ended(self) -> bool:
        """True when every partition was read to its end, as it then was."""
        return len(self._at_end) == len(self._partitions)

    def read(self, timeout_s: float) -> list[Message]:
        """The next records."""
        found: list[Message] = []
        for message in self._consumer.consume(AT_ONCE, timeout_s):
            error = message.error()
            partition = cast("int", message.partition())
            if error is None:
                self._at_end.discard(partition)
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(partition)
            else:
                assert error.retriable() or error.code() == KafkaError._TRANSPORT, error
        return found

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


class Witness:
    """What one reader saw of a sink's topic.

    seen: place → hash of the value, in the order of first occurrences. repeats: further occurrences; differing: those
    with other bytes. inversions: first occurrences behind a later one of their partition. misplaced: records on
    another partition than their source's. newest_ms: the latest time of a source record that came out.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = Topic(settings, topic)
        self.seen: dict[int, int] = {}
        self.repeats = self.differing = self.inversions = self.misplaced = self.newest_ms = 0
        self.came_at = time.monotonic()
        self._last: dict[int, int] = {}

    def __call__(self, stop: threading.Event) -> None:
        """Read until told to stop."""
        while not stop.is_set():
            self.read(0.05)

    def read(self, timeout_s: float) -> None:
        """Take in what is there."""
        records = self._topic.read(timeout_s)
        for record in records:
            self._take(record)
        if records:
            self.newest_ms = max(self.newest_ms, max(record.timestamp()[1] for record in records))
            self.came_at = time.monotonic()

    def read_to_the_end(self) -> "Witness":
        """Take in all that there is, and leave."""
        while not self._topic.ended:
            self.read(0.5)
        self._topic.close()
        return self

    def _take(self, record: Message) -> None:
        headers = dict(cast("list[tuple[str, bytes]]", record.headers()))
        _, partition, offset, output = headers["headwater-src"].decode().rsplit("/", 3)
        at, content = place(int(partition), int(offset), int(output)), hash(record.value())
        self.misplaced += int(partition) != record.partition()
        if at in self.seen:
            self.repeats += 1
            self.differing += self.seen[at] != content
            return
        self.seen[at] = content
        self.inversions += at < self._last.get(int(partition), -1)
        self._last[int(partition)] = max(at, self._last.get(int(partition), -1))

    def same_as(self, other: "Witness") -> bool:
        """True when both saw the same records, in the same order in each partition, with the same repeats."""
        return self._story() == other._story()

    def _story(self) -> tuple[int, dict[int, list[tuple[int, int]]]]:
        by_partition: dict[int, list[tuple[int, int]]] = {}
        for at, content in self.seen.items():
            by_partition.setdefault(at >> 56, []).append((at, content))
        return self.repeats, by_partition


class Truth:
    """What must be on the sinks' topics, from what the stream's topic holds. `records` are those of the stream."""

    def __init__(self, settings: Settings, topic: str, load: Load) -> None:
        self.outputs: dict[int, int] = {}
        self.dead: dict[int, int] = {}
        self.records = 0
        for record in _all(Topic(settings, topic)):
            self._take(record, load)

    def _take(self, record: Message, load: Load) -> None:
        partition, offset = cast("int", record.partition()), cast("int", record.offset())
        value = record.value() or b""
        outputs = load.outputs(value)
        self.records += 1
        if outputs is None:
            self.dead[place(partition, offset, 0)] = hash(value)
        for number, output in enumerate(outputs or ()):
            self.outputs[place(partition, offset, number)] = hash(output)


def _all(topic: Topic) -> Iterator[Message]:
    while not topic.ended:
        yield from topic.read(0.5)
    topic.close()
