"""The source of a redrive reads the selected letters from a real Kafka."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.model.dead_letter import ERROR_HEADER, TIMESTAMP_HEADER, TRANSFORM_HEADER, LetterId
from headwater.model.outputs import OUTPUT_ID_HEADER
from headwater.model.record import RecordBatch
from headwater.model.redrive import LetterRange, RedriveSelection, RedriveSpec
from headwater.sources.dead_letter_source import DeadLetterSource
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.memory.redrives import MemoryRedriveOutcomes

ID = "d1"


class Listener:
    """Ignores rebalances."""

    def on_assigned(self, partitions: list[int]) -> None: ...
    def on_revoked(self, partitions: list[int]) -> None: ...
    def on_lost(self, partitions: list[int]) -> None: ...


class Letters:
    """A dead-letter topic with two partitions."""

    def __init__(self, kafka: KafkaServer) -> None:
        self.kafka = kafka
        self.topic = kafka.create_topic(kafka.unique("dlq"), 2)
        self.store = MemoryRedriveOutcomes()
        self._producer = Producer(producer_settings(kafka.access, ClientErrors(kafka.access), 0))
        self._count = 0

    def write(
        self, *errors: str, partition: int = 0, with_timestamp: bool = True, source: str = "", value: bytes = b""
    ) -> None:
        for error in errors:
            headers = {
                ERROR_HEADER: error,
                TRANSFORM_HEADER: "t",
                OUTPUT_ID_HEADER: source or f"stream/{partition}/{100 + self._count}/0",
            } | ({TIMESTAMP_HEADER: "1234567890123"} if with_timestamp else {})
            self._producer.produce(
                self.topic, value or b"%d" % self._count, b"k", partition, headers=[*headers.items()]
            )
            self._count += 1
        assert self._producer.flush(WAIT_S) == 0

    @contextmanager
    def redrive(self, selection: RedriveSelection, group: str = "") -> Iterator[DeadLetterSource]:
        group = group or self.kafka.unique("redrive")
        self.kafka.commit(group, self.topic, {0: 0, 1: 0})
        source = DeadLetterSource(
            self.kafka.access,
            self.topic,
            group,
            instance_id="redrive",
            deployment_id=ID,
            redrive=RedriveSpec(id="r1", number=1, selection=selection),
            store=self.store,
        )
        source.join(Listener())
        try:
            yield source
        finally:
            source.close(leave_group=True)


@pytest.fixture
def letters(kafka: KafkaServer) -> Letters:
    return Letters(kafka)


def read(source: DeadLetterSource, count: int) -> list[tuple[bytes | None, bytes, int]]:
    """Read until there are `count` letters, and return their values, source ids and timestamps."""
    found: list[tuple[bytes | None, bytes, int]] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        batch = source.poll(100, 0.1)
        found += zip(batch.values, source.source_ids(batch), batch.timestamps, strict=True)
    return found


def read_to_end(source: DeadLetterSource, store: MemoryRedriveOutcomes) -> list[RecordBatch]:
    """Read and commit until the redrive has finished. Return the batches."""
    batches, deadline = [], time.monotonic() + WAIT_S
    while not store.progress(ID, 1).has_finished:
        assert time.monotonic() < deadline
        batch = source.poll(100, 0.1)
        positions = {p: offset + 1 for p, offset in batch.last_offsets().items()} | batch.end_positions
        if positions:
            source.commit(positions, wait=True)
            source.forget(positions)
        if batch:
            batches.append(batch)
    return batches


def values(batches: list[RecordBatch]) -> list[bytes]:
    return sorted(value or b"" for batch in batches for value in batch.values)


def test_letters_have_the_ids_and_times_of_their_source_records(letters: Letters) -> None:
    letters.write("a", "a")
    letters.write("a", with_timestamp=False)
    with letters.redrive(RedriveSelection(ranges={0: LetterRange(0, 3)})) as source:
        first, second, third = read(source, 3)
    assert first == (b"0", b"stream/0/100", 1234567890123)
    assert second[1] == b"stream/0/101"
    assert third[2] > 1234567890123


def test_letters_of_an_error(letters: Letters) -> None:
    letters.write("a", "b", "a", "b", "b")
    letters.write("b", "a", partition=1)
    selection = RedriveSelection(ranges={0: LetterRange(0, 3), 1: LetterRange(1, 2)}, error="a", transform_uid="t")
    with letters.redrive(selection) as source:
        assert values(read_to_end(source, letters.store)) == [b"0", b"2", b"6"]


def test_letters_by_id(letters: Letters) -> None:
    letters.write(*"aaaaaaaaaa")
    letters.store.record(ID, 9, {LetterId(0, 4): "failed"}, 1)
    selection = RedriveSelection(ranges={0: LetterRange(4, 8)}, ids=((0, 4), (0, 7)))
    with letters.redrive(selection) as source:
        assert values(read_to_end(source, letters.store)) == [b"4", b"7"]


@pytest.mark.parametrize(
    ("in_transaction", "named", "expected"),
    [
        (False, False, [b"0", b"3"]),
        (True, False, [b"0", b"2", b"3"]),
        (False, True, [b"0", b"1"]),
        (True, True, [b"0", b"1", b"2"]),
    ],
)
def test_letters_that_were_redriven(letters: Letters, in_transaction: bool, named: bool, expected: list[bytes]) -> None:
    letters.write(*"aaaa")
    letters.store.record(ID, 9, {LetterId(0, 1): "delivered"}, 1)
    letters.store.record(ID, 1, {LetterId(0, 2): "failed"}, 1, in_transaction=in_transaction)
    ids = ((0, 0), (0, 1), (0, 2)) if named else None
    selection = RedriveSelection(ranges={0: LetterRange(0, 4)}, ids=ids)
    with letters.redrive(selection) as source:
        assert values(read_to_end(source, letters.store)) == expected


def test_a_source_record_is_read_once_and_a_stub_never(letters: Letters) -> None:
    letters.write("a", source="stream/0/7/0")
    letters.write("a", source="stream/0/7/1")
    letters.write("a", value=b'{"headwater": "record too large for the dead-letter topic", "sha256": "0a"}')
    letters.write("a")
    letters.write("a", source="stream/0/7/2")
    with letters.redrive(RedriveSelection(ranges={0: LetterRange(0, 5)})) as source:
        assert values(read_to_end(source, letters.store)) == [b"0", b"3"]
        assert source.repeats({0: 5}) == {}


def test_later_letters_are_not_read(letters: Letters) -> None:
    letters.write(*"aa")
    selection = RedriveSelection(ranges={0: LetterRange(0, 2)})
    with letters.redrive(selection) as source:
        letters.write(*"aaa")
        letters.write(*"aaa", partition=1)
        assert values(read_to_end(source, letters.store)) == [b"0", b"1"]
        assert not source.poll(10, 0.5)


def test_no_letter_is_left(letters: Letters) -> None:
    letters.write(*"aaaa")
    letters.kafka.truncate(letters.topic, 0, 4)
    with letters.redrive(RedriveSelection(ranges={0: LetterRange(1, 3)})) as source:
        deadline = time.monotonic() + WAIT_S
        while not (gaps := source.take_gaps()):
            assert time.monotonic() < deadline
            assert not source.poll(10, 0.1)
        source.commit({0: gaps[0].end}, wait=True)
        read_to_end(source, letters.store)


def test_an_end_that_the_store_loses_is_stored_again(letters: Letters) -> None:
    letters.write(*"aa")
    with letters.redrive(RedriveSelection(ranges={0: LetterRange(0, 2)})) as source:
        read_to_end(source, letters.store)
        letters.store.lose_end(ID, 1)
        assert read_to_end(source, letters.store) == []


def test_a_throttled_redrive(letters: Letters) -> None:
    letters.write(*"a" * 12)
    with letters.redrive(RedriveSelection(ranges={0: LetterRange(0, 12)})) as source:
        source.is_throttled = True
        sizes = [len(batch) for batch in read_to_end(source, letters.store)]
    assert max(sizes) <= 5
    assert sum(sizes) == 12
