"""The bridge to librdkafka reads columns from a real Kafka as they were written.

Their content may be anything.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import confluent_kafka
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings, producer_settings
from headwater.brokers.consumer import LibrdkafkaConsumer
from headwater.brokers.producer import LibrdkafkaProducer
from headwater.native import BytesColumn
from headwater.native.librdkafka import FetchedColumns, HeaderColumn, OutputIdColumn, PartitionOffset
from tests.examples import examples
from tests.support.columns import numbers
from tests.support.kafka import KafkaServer

PARTITIONS: Final = 2
WAIT_S: Final = 60.0
BYTES: Final = 8 << 20
FOREVER_S: Final = 600.0
"""This is longer than the timeout of a test."""
STAMP: Final = 1_700_000_000_000

Text = bytes | None
Pairs = list[tuple[Text, Text]]


class Row(NamedTuple):
    """A record as it is written or read. A timestamp of 0 means the current time of the write."""

    value: Text
    key: Text
    partition: int
    timestamp: int
    headers: Pairs


def rows_of(fetched: FetchedColumns) -> list[Row]:
    columns = fetched.values, fetched.keys, fetched.partitions, fetched.timestamps, headers_of(fetched)
    return [Row(*row) for row in zip(*columns, strict=True)]


def headers_of(fetched: FetchedColumns) -> list[Pairs]:
    if fetched.headers is None:
        return [[]] * len(fetched.values)
    counts, names, values = fetched.headers
    pairs = zip(names, values, strict=True)
    return [[*itertools.islice(pairs, count)] for count in counts]


class Bridge:
    """A topic, a producer, and the only member of a group that reads the topic from its start."""

    def __init__(self, kafka: KafkaServer, *, transactional: bool = False) -> None:
        self.kafka = kafka
        self.topic = kafka.create_topic(kafka.unique("bridge"), PARTITIONS)
        errors = ClientErrors(kafka.access)
        more = {"transactional.id": kafka.unique("tx"), "delivery.timeout.ms": 10_000} if transactional else {}
        self.producer = LibrdkafkaProducer(producer_settings(kafka.access, errors, 0) | more)
        reading = consumer_settings(kafka.access, errors, kafka.unique("group")) | {"enable.partition.eof": True}
        self.consumer = LibrdkafkaConsumer(reading, self.topic)

    def write(self, rows: Sequence[Row], headers: Sequence[HeaderColumn] = ()) -> None:
        values, keys = BytesColumn.of(row.value for row in rows), BytesColumn.of(row.key for row in rows)
        numeric = numbers(row.partition for row in rows), numbers(row.timestamp for row in rows)
        assert self.producer.new_batch(self.topic, values, keys, *numeric, headers)[1].enqueue()
        assert self.producer.flush(WAIT_S) == 0
        assert self.producer.take_failures() == []

    def join(self) -> None:
        """Join the group, and return when all partitions are read from their starts."""
        self.consumer.subscribe()
        fetched = self.consumer.fetch(10, BYTES, FOREVER_S)
        assert not len(fetched.values)
        [rebalance] = self.consumer.take_rebalances()
        assert (rebalance.is_assignment, sorted(rebalance.partitions)) == (True, [*range(PARTITIONS)])
        self.consumer.incremental_assign([PartitionOffset(partition, 0) for partition in rebalance.partitions])

    def parts(self) -> Iterator[FetchedColumns]:
        """Yield the fetched columns, call by call."""
        while True:
            fetched = self.consumer.fetch(1000, BYTES, WAIT_S, with_headers=True)
            assert fetched.errors == []
            yield fetched

    def read(self, count: int) -> list[Row]:
        """Return the next records, by partition."""
        rows: list[Row] = []
        for fetched in self.parts():
            rows += rows_of(fetched)
            if len(rows) >= count:
                break
        assert len(rows) == count
        return sorted(rows, key=lambda row: row.partition)

    def close(self) -> None:
        self.producer.close()
        self.consumer.close()


@pytest.fixture(scope="module")
def shared(kafka: KafkaServer) -> Iterator[Bridge]:
    """A bridge whose member has joined the group."""
    with contextlib.closing(Bridge(kafka)) as bridge:
        bridge.join()
        yield bridge


@pytest.fixture
def bridge(kafka: KafkaServer) -> Iterator[Bridge]:
    with contextlib.closing(Bridge(kafka)) as bridge:
        yield bridge


@pytest.fixture
def transactional(kafka: KafkaServer) -> Iterator[Bridge]:
    with contextlib.closing(Bridge(kafka, transactional=True)) as bridge:
        bridge.producer.init_transactions(WAIT_S)
        yield bridge


TEXTS = st.none() | st.binary(max_size=60) | st.sampled_from([b"", b"\n", b"a\n\nb\n", b"\0", b"x" * 70_000])
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
COUNT: Final = 6
PLAIN_ROWS = st.lists(
    st.builds(Row, TEXTS, TEXTS, st.integers(0, PARTITIONS - 1), st.just(0) | st.integers(1, STAMP), st.just([])),
    min_size=1,
    max_size=COUNT,
)
COLUMNS = st.lists(st.tuples(NAMES, st.lists(TEXTS, min_size=COUNT, max_size=COUNT)), max_size=4)


def check(written: Sequence[Row], read: Sequence[Row]) -> None:
    """Assert that the records are equal, in the order of each partition."""
    expected = sorted(written, key=lambda row: row.partition)
    assert [row._replace(timestamp=0) for row in read] == [row._replace(timestamp=0) for row in expected]
    for one, other in zip(read, expected, strict=True):
        assert one.timestamp == other.timestamp or (other.timestamp == 0 < one.timestamp)


class TestRecords:
    @settings(max_examples=examples(60))
    @given(PLAIN_ROWS, COLUMNS)
    def test_columns_are_read_as_they_were_written(
        self, shared: Bridge, rows: list[Row], columns: list[tuple[str, list[Text]]]
    ) -> None:
        """A header whose value is None is omitted, and names may repeat."""
        shared.write(rows, [HeaderColumn(name, BytesColumn.of(values[: len(rows)])) for name, values in columns])
        of_rows: list[Pairs] = [
            [(name.encode(), values[at]) for name, values in columns if values[at] is not None]
            for at in range(len(rows))
        ]
        written = [row._replace(headers=pairs) for row, pairs in zip(rows, of_rows, strict=True)]
        check(written, shared.read(len(rows)))

    def test_large_records(self, shared: Bridge) -> None:
        rows = [Row(b"\n" * 1_000_000, b"k" * size, 0, STAMP, []) for size in (0, 1, 39_000)]
        shared.write(rows)
        check(rows, shared.read(3))

    def test_positions_of_source_records(self, shared: Bridge) -> None:
        columns = numbers([0, 2**31 - 1]), numbers([2**63 - 1, 0]), numbers([7, 2**63 - 1])
        for topic in ("s", "t" * 249):
            positions = OutputIdColumn(topic, *columns)
            shared.write(
                [Row(b"v", None, 0, 0, [])] * 2,
                [HeaderColumn("src", positions), HeaderColumn("e", BytesColumn.of([b"", None]))],
            )
            assert [row.headers for row in shared.read(2)] == [
                [(b"src", positions.value(0)), (b"e", b"")],
                [(b"src", positions.value(1))],
            ]

    def test_headers_of_other_producers(self, shared: Bridge) -> None:
        """Headers with null values are read too, although the bridge does not write them."""
        writer = confluent_kafka.Producer(dict(shared.kafka.plain_settings))
        pairs: list[tuple[str, str | Text]] = [("a", None), ("a", b""), ("a", b"x"), ("", b"\n"), ("é", None)]
        for headers in (pairs, [], pairs[:1]):
            writer.produce(shared.topic, b"v", partition=0, headers=headers)
        assert writer.flush(WAIT_S) == 0
        expected: list[Any] = [(name.encode(), value) for name, value in pairs]
        assert [row.headers for row in shared.read(3)] == [expected, [], expected[:1]]

    def test_epochs_and_offsets(self, bridge: Bridge) -> None:
        bridge.write([Row(b"%d" % number, None, 1, 0, []) for number in range(5)])
        bridge.join()
        found: list[tuple[int, int, int]] = []
        for fetched in bridge.parts():
            found += zip(fetched.offsets, fetched.leader_epochs, fetched.partitions, strict=True)
            if len(found) >= 5:
                break
        assert found == [(offset, 0, 1) for offset in range(5)]


class TestBounds:
    SIZE: Final = 1_000

    @pytest.fixture
    def full(self, bridge: Bridge) -> Bridge:
        """A bridge with 500 records in one partition."""
        bridge.write([Row(b"x" * self.SIZE, None, 0, 0, [])] * 500)
        bridge.join()
        return bridge

    @pytest.mark.parametrize(("max_records", "max_bytes", "most"), [(10, BYTES, 10), (1000, 20_000, 21), (5, 1, 5)])
    def test_limits_of_records_and_bytes(self, full: Bridge, max_records: int, max_bytes: int, most: int) -> None:
        sizes: list[int] = []
        while sum(sizes) < 500:
            sizes.append(len(full.consumer.fetch(max_records, max_bytes, WAIT_S).values))
        assert sum(sizes) == 500
        assert max(sizes) <= most


class TestWait:
    def test_a_rebalance_ends_a_wait(self, bridge: Bridge) -> None:
        """A rebalance ends the wait of `join`, which is longer than the timeout of this test."""
        bridge.join()
        bridge.consumer.unsubscribe()
        while not (changes := bridge.consumer.take_rebalances()):
            bridge.consumer.fetch(10, BYTES, FOREVER_S)
        assert [(change.is_assignment, change.lost) for change in changes] == [(False, False)]

    def test_a_record_ends_a_wait(self, bridge: Bridge) -> None:
        bridge.join()
        bridge.write([Row(b"a", None, 0, 0, [])])
        assert len(bridge.read(1)) == 1


class TestEnds:
    """Control records have offsets, but a consumer does not return them."""

    def ends(self, bridge: Bridge, wanted: dict[int, int]) -> tuple[dict[int, int], list[int]]:
        """Read until the end offsets are as expected.

        Return them with the offsets of the records before them.
        """
        ends: dict[int, int] = {}
        offsets: list[int] = []
        for fetched in bridge.parts():
            offsets += fetched.offsets
            ends.update(fetched.end_offsets)
            if ends == wanted:
                break
        return ends, offsets

    def test_end_offsets_include_control_records(self, transactional: Bridge) -> None:
        bridge = transactional
        for abort in (False, True, False, True):
            bridge.producer.begin_transaction()
            bridge.write([Row(b"aborted" if abort else b"committed", None, 0, 0, [])])
            (bridge.producer.abort_transaction if abort else bridge.producer.commit_transaction)(WAIT_S)
        bridge.join()
        _, offsets = self.ends(bridge, {0: 8, 1: 0})
        assert offsets == [0, 4]
        assert bridge.consumer.watermarks(0, WAIT_S) == (0, 8)

    def test_a_record_without_transaction_is_the_last(self, bridge: Bridge) -> None:
        bridge.write([Row(b"a", None, 1, 0, [])] * 3)
        bridge.join()
        assert self.ends(bridge, {0: 0, 1: 3})[1] == [0, 1, 2]
