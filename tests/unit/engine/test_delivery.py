"""Outputs and dead letters of one batch."""

import hashlib
import json
import time
from dataclasses import replace

from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.delivery import UNLIMITED
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.model.dead_letter import MAX_HEADER_BYTES
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.sinks.kafka import KafkaSink
from headwater.transforms.base import PendingBatch
from tests.support.columns import numbers
from tests.support.memory.sinks import MemoryProducer, MemoryTopics, Produced


class Finished:
    """A PendingBatch with a given outcome."""

    def __init__(self, outcome: TransformResult) -> None:
        self._outcome = outcome

    def done(self) -> bool:
        return True

    def wait(self, timeout_s: float) -> None:
        pass

    def result(self) -> TransformResult:
        return self._outcome


class Fixed:
    """A transform with a given outcome."""

    uid = "t1"

    def __init__(self, outcome: TransformResult) -> None:
        self._outcome = outcome

    def start(self, batch: RecordBatch) -> PendingBatch:
        return Finished(self._outcome)

    def close(self) -> None:
        pass


def batch(*rows: tuple[bytes | None, bytes | None, int, int, int]) -> RecordBatch:
    """Return a batch from rows of value, key, partition, offset and index.

    The timestamp is 100 + offset.
    """
    values, keys, partitions, offsets, indexes = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    stamps = [100 + offset for offset in offsets]
    return RecordBatch.of("stream", values, keys, stamps, partitions, offsets, indexes)


def deliver(
    source: RecordBatch, outcome: TransformResult, sinks: tuple[str, ...] = ("out",)
) -> dict[str, list[Produced]]:
    topics = MemoryTopics([*sinks, "dead"])
    producer = MemoryProducer(topics)
    delivery = AtLeastOnce([KafkaSink(s, s) for s in sinks], DeadLetterWriter("dead", 4), lambda _: producer)
    in_flight = InFlightBatch(source, [Fixed(outcome)], 0.0)
    in_flight.advance(wait=True)
    delivery.deliver(in_flight)
    assert delivery.flush(0) == 0
    return topics.records


def headers(record: Produced) -> dict[str, str]:
    return {name: value.decode() for name, value in record.headers}


class TestDeadLetters:
    def test_carry_the_source_record(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        stamps = numbers([now_ms - 1, now_ms - 2])
        source = replace(batch((b"a", b"k", 0, 7, 0), (b"b", None, 1, 9, 0)), timestamps=stamps)
        failure = Failure(1, "TypeError", "x is not a function", "t1", 3, 14, 2)
        (letter,) = deliver(source, TransformResult(batch(), [failure]))["dead"]
        assert (letter.value, letter.key, letter.partition, letter.timestamp_ms) == (b"b", None, 1, now_ms - 2)
        assert headers(letter) == {
            "headwater-error": "TypeError",
            "headwater-message": "x is not a function",
            "headwater-transform": "t1",
            "headwater-line": "3",
            "headwater-column": "14",
            "headwater-attempts": "2",
            "headwater-src": "stream/1/9/0",
            "headwater-cfg": "4",
            "headwater-timestamp": str(now_ms - 2),
        }

    def test_without_a_place_in_the_script(self) -> None:
        letters = deliver(
            batch((b"", b"k", 0, 0, 0)), TransformResult(batch(), [Failure(0, "InvalidJSON", "empty", "t1")])
        )
        assert not {"headwater-line", "headwater-column"} & headers(letters["dead"][0]).keys()

    def test_one_dead_letter_per_output_that_a_sink_rejects(self) -> None:
        source = batch((b"small", b"k", 2, 5, 0))
        outputs = batch((b"x" * 1_000_001, b"k", 2, 5, 0), (b"ok", b"k", 2, 5, 1), (b"y" * 1_000_001, b"k", 2, 5, 2))
        records = deliver(source, TransformResult(outputs), ("out", "other"))
        assert [r.value for r in records["out"]] == [r.value for r in records["other"]] == [b"ok"]
        dead_letters = [
            (headers(r)["headwater-transform"], headers(r)["headwater-src"], r.value) for r in records["dead"]
        ]
        assert dead_letters == [
            ("out", "stream/2/5/0", b"small"),
            ("out", "stream/2/5/2", b"small"),
            ("other", "stream/2/5/0", b"small"),
            ("other", "stream/2/5/2", b"small"),
        ]

    def test_the_dead_letter_of_a_too_large_input_is_a_stub(self) -> None:
        value = b"x" * 1_100_000
        (letter,) = deliver(batch((value, b"k", 0, 0, 0)), TransformResult(batch(), [Failure(0, "E", "m", "t1")]))[
            "dead"
        ]
        stub = json.loads(letter.value or b"")
        assert (stub["sha256"], stub["bytes"]) == (hashlib.sha256(value).hexdigest(), 1_100_000)
        assert letter.key == b"k"
        assert dict(letter.headers)["headwater-stub"] == stub["headwater"].encode()

    def test_a_too_large_key_is_omitted(self) -> None:
        source = batch((b"v", b"k" * 1_100_000, 0, 0, 0))
        (letter,) = deliver(source, TransformResult(batch(), [Failure(0, "E", "m", "t1")]))["dead"]
        assert letter.key is None
        assert json.loads(letter.value or b"")["key_bytes"] == 1_100_000

    def test_long_messages_are_cut_between_characters(self) -> None:
        message = "ü" * MAX_HEADER_BYTES + "\ud800"
        (letter,) = deliver(batch((b"v", None, 0, 0, 0)), TransformResult(batch(), [Failure(0, "E", message, "t1")]))[
            "dead"
        ]
        assert headers(letter)["headwater-message"] == "ü" * (MAX_HEADER_BYTES // 2)


class TestDroppedPartitions:
    def test_nothing_of_them_is_sent(self) -> None:
        topics = MemoryTopics(["out", "dead"])
        delivery = AtLeastOnce([KafkaSink("out", "out")], DeadLetterWriter("dead", 1), lambda _: MemoryProducer(topics))
        source = batch((b"a", None, 0, 1, 0), (b"b", None, 1, 5, 0), (b"c", None, 1, 6, 0))
        outcome = TransformResult(batch((b"A", None, 0, 1, 0), (b"B", None, 1, 5, 0)), [Failure(2, "E", "m", "t1")])
        in_flight = InFlightBatch(source, [Fixed(outcome)], 0.0)
        in_flight.advance(wait=True)
        in_flight.drop([1])
        assert delivery.deliver(in_flight) == (1, [])
        delivery.flush(0)
        assert [r.value for r in topics.records["out"]] == [b"A"]
        assert topics.records["dead"] == []
        assert in_flight.next_offsets() == {0: 2}


class TestRejections:
    def test_recovery_replaces_the_producer(self) -> None:
        topics, producers = MemoryTopics(["dead"]), list[MemoryProducer]()

        def create(one_record_per_batch: bool) -> MemoryProducer:
            producers.append(MemoryProducer(topics))
            return producers[-1]

        delivery = AtLeastOnce([KafkaSink("out", "no-such-topic")], DeadLetterWriter("dead", 1), create)
        delivery.deliver(InFlightBatch(batch((b"a", None, 0, 1, 0)), [], 0.0))
        assert delivery.backpressure() == (UNLIMITED, False)
        assert (delivery.outstanding(), delivery.take_reread_reasons()) == (1, [])
        delivery.flush(1)
        assert (delivery.outstanding(), len(delivery.take_reread_reasons())) == (0, 1)
        assert not delivery.recover()
        assert (delivery.take_reread_reasons(), len(producers)) == ([], 2)
