"""The bridge to librdkafka without a broker.

It records callbacks as events, moves columns in and out, and reports errors.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.producer import LibrdkafkaProducer
from headwater.errors import SetupError
from headwater.native import BytesColumn
from headwater.native import librdkafka as bridge
from headwater.native.ffi import FFI, NULL, Column, native_library
from headwater.native.librdkafka import (
    MAX_HEADERS,
    ClientEvent,
    EventKind,
    EventQueue,
    Fetcher,
    HeaderColumn,
    OutgoingBatch,
    OutputIdColumn,
    PartitionError,
    PartitionList,
    PartitionOffset,
    librdkafka,
)
from tests.support.columns import numbered, numbers

EVENTS, ROOM = 256, 360
"""Sizes in `librdkafka.h`: of the queue of events, and of a text."""
RESERVED, RESERVED_REBALANCES = 128, 8
"""The places of the queue that log lines and errors leave free, and that all events but rebalances leave free."""


@pytest.fixture(autouse=True, scope="module")
def linked() -> None:
    librdkafka()


@pytest.fixture
def events() -> EventQueue:
    return EventQueue()


class TestEvents:
    def test_an_error(self, events: EventQueue) -> None:
        native_library().kafka_on_error(NULL, -195, b"gone", events.struct)
        assert events.take_events() == [ClientEvent(EventKind.ERROR, -195, "gone", [], False)]
        assert events.take_events() == []

    def test_a_token_request_without_settings(self, events: EventQueue) -> None:
        native_library().kafka_on_token_refresh(NULL, NULL, events.struct)
        assert [event.text for event in events.take_events()] == [""]

    def test_a_commit_without_partitions(self, events: EventQueue) -> None:
        native_library().kafka_on_commit(NULL, KafkaError._NO_OFFSET, NULL, events.struct)
        assert events.take_events() == [ClientEvent(EventKind.COMMIT, KafkaError._NO_OFFSET, "", [], False)]

    def test_a_commit_keeps_its_partitions_when_the_list_is_gone(self, events: EventQueue) -> None:
        places = [PartitionOffset(3, 1 << 40, 7, "label"), PartitionOffset(0, 0)]
        partitions = PartitionList("topic", places)
        native_library().kafka_on_commit(NULL, 0, partitions.struct, events.struct)
        del partitions
        assert events.take_events() == [ClientEvent(EventKind.COMMIT, 0, "", places, False)]

    def test_a_log_line_of_no_client_is_dropped(self) -> None:
        native_library().kafka_on_log(NULL, 6, b"FAIL", b"a line")

    @given(st.text(st.characters(exclude_characters="\0"), max_size=2 * ROOM))
    def test_too_long_messages_are_truncated(self, text: str) -> None:
        events, encoded = EventQueue(), text.encode(errors="replace")
        native_library().kafka_on_error(NULL, 1, encoded, events.struct)
        assert [event.text for event in events.take_events()] == [encoded[: ROOM - 1].decode(errors="replace")]

    def test_errors_leave_room_for_essential_events(self, events: EventQueue) -> None:
        for number in range(300):
            native_library().kafka_on_error(NULL, number, b"", events.struct)
        for _ in range(300):
            native_library().kafka_on_commit(NULL, 0, NULL, events.struct)
        kinds = [event.kind for event in events.take_events()]
        errors, commits = EVENTS - RESERVED, RESERVED - RESERVED_REBALANCES
        assert kinds == [EventKind.ERROR] * errors + [EventKind.COMMIT] * commits
        assert events.take_dropped_count() == 600 - errors - commits
        assert events.take_dropped_count() == 0
        native_library().kafka_on_error(NULL, 1, b"", events.struct)
        assert len(events.take_events()) == 1


class TestArguments:
    """Arguments of a wrong type raise errors and do not crash the process."""

    @pytest.mark.parametrize("opaque", [None, 7, "text", object()])
    def test_of_a_callback(self, opaque: object) -> None:
        with pytest.raises(TypeError):
            native_library().kafka_on_error(NULL, 1, b"", opaque)

    def test_of_another_struct(self, events: EventQueue) -> None:
        with pytest.raises(TypeError):
            native_library().kafka_fetch_messages(events.struct, 1, 1, 0)

    def test_an_integer_overflow(self, events: EventQueue) -> None:
        with pytest.raises(OverflowError):
            native_library().kafka_on_error(NULL, 1 << 40, b"", events.struct)

    def test_a_text_in_place_of_bytes(self, events: EventQueue) -> None:
        with pytest.raises(TypeError):
            native_library().kafka_on_error(NULL, 1, "text", events.struct)


def sending(
    values: BytesColumn | None = None,
    keys: BytesColumn | None = None,
    partitions: Column | None = None,
    timestamps: Column | None = None,
    headers: Sequence[HeaderColumn] = (),
) -> OutgoingBatch:
    """Create a batch of two records without a client."""
    two = BytesColumn.of([b"a", b"b"])
    columns = numbers([0, 0]) if partitions is None else partitions, timestamps or numbers([0, 0])
    return OutgoingBatch(EventQueue(), NULL, NULL, 0, values or two, keys or two, *columns, headers)


class TestSending:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"keys": BytesColumn.of([b"a"])},
            {"partitions": numbers([0])},
            {"partitions": numbers([])},
            {"timestamps": numbers([0, 0, 0])},
            {"headers": [HeaderColumn("h", BytesColumn.of([b"x"]))]},
            {"headers": [HeaderColumn("h", OutputIdColumn("t", numbers([0, 0]), numbers([0]), numbers([0, 0])))]},
        ],
    )
    def test_columns_of_other_lengths(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="for 2 records"):
            sending(**wrong)

    def test_columns_of_another_type(self) -> None:
        with pytest.raises(TypeError):
            sending(partitions=numbered([0, 0]))

    def test_a_value_that_is_not_a_column(self) -> None:
        with pytest.raises((TypeError, AttributeError)):
            sending(values=[b"a", b"b"])  # type: ignore[arg-type]

    def test_too_many_headers(self) -> None:
        column = BytesColumn.of([b"a", b"b"])
        headers = [HeaderColumn(f"h{number}", column) for number in range(MAX_HEADERS + 1)]
        with pytest.raises(ValueError, match=f"at most {MAX_HEADERS} headers, not {MAX_HEADERS + 1}"):
            sending(headers=headers)
        sending(headers=headers[:-1])

    def test_no_records(self) -> None:
        nothing = BytesColumn.of([])
        assert OutgoingBatch(EventQueue(), NULL, NULL, 0, nothing, nothing, numbers([]), numbers([])).enqueue()


class TestQueue:
    """Errors of librdkafka itself, without a broker."""

    @contextmanager
    def producer(self, **more: object) -> Iterator[LibrdkafkaProducer]:
        settings = {"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda _: None}
        with closing(
            LibrdkafkaProducer(settings | {name.replace("_", "."): value for name, value in more.items()})
        ) as new_producer:
            yield new_producer

    def start(self, producer: LibrdkafkaProducer, values: Sequence[bytes | None]) -> tuple[int, OutgoingBatch]:
        texts, zeros = BytesColumn.of(values), numbers([0] * len(values))
        return producer.new_batch("topic", texts, BytesColumn.of([None] * len(values)), zeros, zeros)

    def test_records_that_are_too_large_fail_by_their_numbers(self) -> None:
        with self.producer(message_max_bytes=1000) as producer:
            self.start(producer, [b""] * 5)
            _, records = self.start(producer, [b"x", b"x" * 2000, None, b"x" * 3000])
            assert records.enqueue()
            producer.poll(0)
            failures = producer.take_failures()
            assert [(each.record_id, each.code) for each in failures] == [
                (6, KafkaError.MSG_SIZE_TOO_LARGE),
                (8, KafkaError.MSG_SIZE_TOO_LARGE),
            ]
            while producer.outstanding() != 2:  # errors of the connection count until they are polled
                producer.poll(0.01)

    def test_all_records_that_are_rejected_at_once_are_reported(self) -> None:
        with self.producer(message_max_bytes=1000, queue_buffering_max_messages=100) as producer:
            _, records = self.start(producer, [b"x" * 2000] * 450)
            for _ in range(4):
                assert not records.enqueue()  # until the failures are taken
                producer.poll(0)
            assert records.enqueue()
            producer.poll(0)
            assert [each.record_id for each in producer.take_failures()] == [*range(450)]

    def test_all_queued_records_that_fail_are_reported(self) -> None:
        count = 20 * EVENTS
        with self.producer(queue_buffering_max_messages=count) as producer:
            assert self.start(producer, [b"x"] * count)[1].enqueue()
            producer.purge()
            while producer.outstanding():
                producer.poll(0.01)
            assert [each.record_id for each in producer.take_failures()] == [*range(count)]

    def test_a_full_queue_takes_the_others_later(self) -> None:
        with self.producer(queue_buffering_max_messages=10) as producer:
            _, records = self.start(producer, [b"%d" % number for number in range(25)])
            assert not records.enqueue()
            while not records.enqueue():
                producer.purge()
                producer.poll(0.01)
            producer.purge()
            while producer.outstanding():
                producer.poll(0.01)
            assert [each.record_id for each in producer.take_failures()] == [*range(25)]

    def test_a_partition_number_that_does_not_exist(self) -> None:
        with self.producer() as producer:
            texts = BytesColumn.of([b"a"])
            _, records = producer.new_batch("topic", texts, texts, numbers([-7]), numbers([0]))
            assert records.enqueue()

    def test_a_closed_producer_does_not_crash(self) -> None:
        with self.producer() as producer:
            producer.close()
            with pytest.raises(RuntimeError, match="closed"):
                producer.poll(0)


class TestSourcePositions:
    @given(st.text(max_size=30), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
    def test_a_value_names_the_record(self, topic: str, partition: int, offset: int, index: int) -> None:
        column = OutputIdColumn(topic, numbers([0, partition]), numbers([0, offset]), numbers([0, index]))
        assert column.value(1) == f"{topic}/{partition}/{offset}/{index}".encode()


class TestLibrary:
    def test_another_version_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bridge, "CHECKED_VERSION", (9, 9))
        with pytest.raises(SetupError, match=r"contains librdkafka 2\.16\.\d+, and this Headwater works with 9\.9"):
            librdkafka.__wrapped__()

    def test_none_is_loaded(self, tmp_path: Path) -> None:
        maps = tmp_path / "maps"
        maps.write_text("7f00-7f01 r-xp 00000000 00:00 0\n7f00-7f01 r-xp 00000000 00:00 1 /lib/libc.so.6\n")
        with pytest.raises(SetupError, match=r"without a librdkafka of its own.*install its wheel"):
            bridge.librdkafka_path(maps)

    def test_its_path_may_have_spaces(self, tmp_path: Path) -> None:
        maps = tmp_path / "maps"
        maps.write_text("7f00-7f01 r-xp 00000000 00:00 1          /a b/librdkafka-1a2b.so.1\n")
        assert bridge.librdkafka_path(maps) == "/a b/librdkafka-1a2b.so.1"

    @pytest.mark.parametrize("check", [bridge._version_of, bridge._functions])
    def test_functions_are_missing(self, check: Callable[[Any, str], object]) -> None:
        with pytest.raises(SetupError, match=r"librdkafka in libc lacks a function .*rd_kafka_.*install"):
            check(FFI.dlopen(None), "libc")

    def test_the_declarations_name_no_function_that_is_missing(self) -> None:
        found = librdkafka()
        assert all(FFI.addressof(found, name) for name in dir(found) if name.startswith("rd_kafka_"))


class Message(NamedTuple):
    """A message of a queue: a record, or an error if `code` is not 0."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    code: int = 0
    partition: int = 0
    offset: int = 0


@dataclass
class Queue:
    """Plays librdkafka's queue, with its memory layout.

    It returns more kinds of messages than a broker, and faster.
    """

    messages: list[Message]

    def __post_init__(self) -> None:
        self._kept: list[object] = []
        self._shown: dict[int, Message] = {}
        self.alive = 0

    def functions(self) -> Any:
        """Return the functions for `kafka_set_functions`."""
        table = FFI.new("KafkaFunctions *", {name: FFI.NULL for name, _ in FFI.typeof("KafkaFunctions").fields})
        for name, field in FFI.typeof("KafkaFunctions").fields:
            if played := getattr(self, f"_{name}", None):
                setattr(table, name, self._keep(FFI.callback(field.type, played)))
        return table

    def _keep(self, kept_object: Any) -> Any:
        self._kept.append(kept_object)
        return kept_object

    def _bytes(self, text: bytes | None) -> tuple[Any, int]:
        return (NULL, 0) if text is None else (self._keep(FFI.new("char[]", text)), len(text))

    def _consume_batch_queue(self, _queue: Any, _timeout_ms: int, room: Any, size: int) -> int:
        taken, self.messages = self.messages[:size], self.messages[size:]
        for place, message in enumerate(taken):
            struct = self._keep(FFI.new("rd_kafka_message_t *"))
            struct.err, struct.partition, struct.offset = message.code, message.partition, message.offset
            struct.payload, struct.len = self._bytes(message.value)
            struct.key, struct.key_len = self._bytes(message.key)
            self._shown[self._address(struct)] = message
            room[place] = struct
        self.alive += len(taken)
        return len(taken)

    def _address(self, struct: Any) -> int:
        return int(FFI.cast("intptr_t", struct))

    def _message_destroy(self, _struct: Any) -> None:
        self.alive -= 1

    def _message_timestamp(self, _struct: Any, kind: Any) -> int:
        kind[0] = 0
        return -1

    def _message_leader_epoch(self, _struct: Any) -> int:
        return 5

    def _message_headers(self, struct: Any, headers: Any) -> int:
        if not self._shown[self._address(struct)].headers:
            return int(KafkaError._NOENT)
        headers[0] = FFI.cast("rd_kafka_headers_t *", struct)
        return 0

    def _header_get_all(self, headers: Any, number: int, name: Any, value: Any, size: Any) -> int:
        pairs = self._shown[self._address(headers)].headers
        if number >= len(pairs):
            return int(KafkaError._NOENT)
        name[0] = self._bytes(pairs[number][0])[0]
        value[0], size[0] = self._bytes(pairs[number][1])
        return 0


@contextmanager
def linked_to(queue: Queue) -> Iterator[Fetcher]:
    """Yield a fetcher of a queue. librdkafka's own functions are set again at the end."""
    table = queue.functions()
    native_library().kafka_set_functions(table)
    try:
        yield Fetcher(NULL)
    finally:
        found = librdkafka()
        native_library().kafka_set_functions(bridge._functions(found, "librdkafka"))


TEXTS = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"\n", b"x" * 3000])
NAMES = st.binary(max_size=12).map(lambda name: name.replace(b"\0", b"-"))
RECORDS = st.builds(
    Message,
    TEXTS,
    TEXTS,
    st.lists(st.tuples(NAMES, TEXTS), max_size=4),
    code=st.just(0),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
)
ERRORS = st.builds(
    Message,
    st.none() | NAMES | st.just(b"x" * 1000),
    headers=st.just(()),
    code=st.sampled_from([KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, 29]),
    partition=st.integers(0, 200),
    offset=st.integers(-1001, 2**40),
)


def drained(fetcher: Fetcher, queue: Queue, max_records: int, max_bytes: int) -> Iterator[bridge.FetchedColumns]:
    """Yield everything in a queue, call by call."""
    while queue.messages:
        fetched = fetcher.fetch(max_records, max_bytes, 1.0, with_headers=True)
        assert queue.alive == 0
        yield fetched


class TestFetcher:
    @given(st.lists(RECORDS | ERRORS, max_size=40), st.integers(1, 50), st.integers(1, 10_000))
    def test_all_messages_are_returned_once_and_in_order(
        self, messages: list[Message], max_records: int, max_bytes: int
    ) -> None:
        queue, found, failed = Queue(messages), [], []
        with linked_to(queue) as fetcher:
            for part in drained(fetcher, queue, max_records, max_bytes):
                assert len(part.values) <= max_records
                found += [*zip(part.values, part.keys, part.partitions, part.offsets, headers(part), strict=True)]
                failed += part.errors
        records = [each for each in messages if not each.code]
        errors = [each for each in messages if each.code not in (0, KafkaError._PARTITION_EOF)]
        assert found == [(m.value, m.key, m.partition, m.offset, [*m.headers]) for m in records]
        texts = [(each.value or b"").split(b"\0")[0][: ROOM - 1].decode(errors="replace") for each in errors]
        assert failed == [
            PartitionError(each.code, each.partition, each.offset, text)
            for each, text in zip(errors, texts, strict=True)
        ]

    @pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError._TRANSPORT])
    def test_errors_and_ends_beyond_the_room_are_returned_by_later_calls(self, code: int) -> None:
        queue, reported = Queue([Message(code=code, partition=p, offset=p) for p in range(1000)]), []
        with linked_to(queue) as fetcher:
            for part in drained(fetcher, queue, 100, 1 << 20):
                reported += [*part.end_offsets, *(failed.partition for failed in part.errors)]
        assert reported == [*range(1000)]

    def test_the_last_end_of_a_partition_counts(self) -> None:
        ends = [Message(code=KafkaError._PARTITION_EOF, partition=n % 2, offset=n) for n in range(6)]
        with linked_to(Queue(ends)) as fetcher:
            assert fetcher.fetch(10, 1 << 20, 0).end_offsets == {0: 4, 1: 5}

    def test_one_record_is_returned_however_large_it_is(self) -> None:
        queue = Queue([Message(b"x" * 100_000)] * 9)
        with linked_to(queue) as fetcher:
            sizes = [len(part.values) for part in drained(fetcher, queue, 100, 1)]
        assert min(sizes) >= 1
        assert sum(sizes) == 9

    def test_more_records_than_one_call_has_room_for(self) -> None:
        queue = Queue([Message()] * 10_000)
        with linked_to(queue) as fetcher:
            assert [len(part.values) for part in drained(fetcher, queue, 1 << 20, 1 << 30)] == [4096, 4096, 1808]


def headers(fetched: bridge.FetchedColumns) -> list[list[tuple[bytes | None, bytes | None]]]:
    """Return the name and the value of each header of each record."""
    if fetched.headers is None:
        return []
    pairs = iter([*zip(fetched.headers.names, fetched.headers.values, strict=True)])
    return [[next(pairs) for _ in range(count)] for count in fetched.headers.counts]
