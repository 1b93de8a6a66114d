"""From the bytes of a log to what a reader of committed records sees of it."""

import random
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import Producer, pack, seal
from headwater.brokers.wire.compression import GZIP, LZ4, SNAPPY, ZSTD
from headwater.brokers.wire.fetch import Aborted
from headwater.brokers.wire.reading import Head, UnreadableBatch, batch, heads
from headwater.native import Portion, Texts
from tests.support.kafka_batches import (
    ABORT,
    APPEND_TIME,
    COMMIT,
    CONTROL,
    HEAD_SIZE,
    TRANSACTIONAL,
    Row,
    build,
    changed,
    committed,
    marker,
    rows_of,
)

TEXTS = st.none() | st.binary(max_size=70) | st.just(b"x" * 9000)
HEADERS = st.lists(st.tuples(st.text(max_size=5), TEXTS), max_size=2)
TIMES = st.integers(0, 1 << 45)
CODECS = st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD])


@st.composite
def many_rows(draw: st.DrawFn) -> list[Row]:
    deltas = sorted(draw(st.sets(st.integers(0, 70), min_size=1, max_size=20)))
    return [Row(delta, draw(TIMES), draw(TEXTS), draw(TEXTS), draw(HEADERS)) for delta in deltas]


def seen(log: bytes, aborted: Sequence[Aborted] = (), offset: int = 0) -> list[tuple[Any, ...]]:
    batches = committed(memoryview(log), aborted, offset)
    return [row for found in batches for row in rows_of(found.body, found.columns)]


def offsets(log: bytes, aborted: Sequence[Aborted] = (), offset: int = 0) -> list[int]:
    return [row[0] for row in seen(log, aborted, offset)]


class TestBatches:
    @given(st.lists(st.tuples(many_rows(), CODECS, st.integers(0, 1 << 50)), max_size=4))
    def test_any_are_read(self, drawn: list[tuple[list[Row], int, int]]) -> None:
        log = b"".join(build(rows, codec, base_offset=base) for rows, codec, base in drawn)
        expected = [(base + row.delta, row.time, row.key, row.value) for rows, _, base in drawn for row in rows]
        assert seen(log) == expected

    @given(st.lists(st.tuples(TEXTS, TEXTS, TIMES), min_size=1, max_size=20), st.booleans())
    def test_ours_are_read(self, rows: list[Any], headers: bool) -> None:
        values, keys, times = zip(*rows, strict=True)
        portion = Portion(array("i", range(len(rows))), Texts.of(values), Texts.of(keys), array("q", times))
        log = b"".join(seal(pack([portion], [("name", b"value")] * headers), Producer(7, 1), 5))
        assert seen(log) == [(place, time, key, value) for place, (value, key, time) in enumerate(rows)]

    def test_what_a_head_says(self) -> None:
        log = build([Row(0, 9, None, b"v" * 99), Row(4, 7, None, b"w")], LZ4, base_offset=30, leader_epoch=6)
        ((head, body),) = heads(memoryview(log))
        assert head == Head(30, 6, LZ4, 4, 9, 9, -1, 2)
        assert (head.codec, head.append_ms, head.transactional, head.control) == (LZ4, -1, False, False)
        assert (head.last_offset, head.next_offset) == (34, 35)
        assert bytes(body) == log[HEAD_SIZE:]

    @given(many_rows(), CODECS, st.integers(0, 80))
    def test_from_an_offset_on(self, rows: list[Row], codec: int, offset: int) -> None:
        log = build(rows, codec, base_offset=3)
        assert offsets(log, (), offset) == [3 + row.delta for row in rows if 3 + row.delta >= offset]

    def test_bodies_that_are_not_compressed_are_not_copied(self) -> None:
        log = bytearray(build([Row(0, 1, None, b"value")]))
        (found,) = committed(memoryview(log), (), 0)
        log[log.index(b"value")] = ord("V")
        assert b"Value" in bytes(found.body)

    @pytest.mark.parametrize("codec", [0, LZ4])
    def test_the_time_when_it_was_appended(self, codec: int) -> None:
        rows = [Row(0, 9, None, b"v" * 99), Row(1, 7, None, b"w")]
        log = build(rows, codec, attributes=codec | APPEND_TIME, latest_ms=77)
        assert [row[1] for row in seen(log)] == [77, 77]

    @pytest.mark.parametrize("codec", [0, LZ4])
    def test_compaction_leaves_heads_without_records(self, codec: int) -> None:
        empty = changed(build([Row(0, 9, None, b"v"), Row(7, 9, None, b"v")]), b"", count=0, attributes=codec)
        (found,) = committed(memoryview(empty), (), 0)
        assert (rows_of(found.body, found.columns), found.head.next_offset) == ([], 8)

    def test_no_records(self) -> None:
        assert seen(b"") == []


ROWS = [Row(place, place, b"k%d" % place, b"value" * 50) for place in range(4)]


class TestOffsets:
    """Brokers take what a producer wrote there."""

    @pytest.mark.parametrize("deltas", [(0, 1 << 30), (0, 5), (1, 0), (0, 0), (-1, 0), (5, 9)])
    def test_of_a_batch_with_all_its_records_are_counted(self, deltas: tuple[int, int]) -> None:
        rows = [Row(delta, 9, None, b"v") for delta in deltas]
        log = changed(build(rows), last_offset_delta=1, base_offset=30)
        assert offsets(log) == [30, 31]
        assert offsets(log, offset=31) == [31]

    @pytest.mark.parametrize("deltas", [(0, 1 << 30), (1, 0), (0, 0), (-1, 0)])
    def test_of_others_must_ascend_within_the_batch(self, deltas: tuple[int, int]) -> None:
        rows = [Row(delta, 9, None, b"v") for delta in deltas]
        with pytest.raises(UnreadableBatch, match="don't ascend"):
            offsets(changed(build(rows), last_offset_delta=4))


class TestIncomplete:
    def test_the_last_batch_may_be_cut_off_anywhere(self) -> None:
        first, last = build(ROWS), build(ROWS, LZ4, base_offset=4)
        for size in range(len(last)):
            assert offsets(first + last[:size]) == [0, 1, 2, 3]

    def test_the_first_may_not(self) -> None:
        log = build(ROWS, base_offset=1 << 40)
        for size in range(1, len(log)):
            with pytest.raises(UnreadableBatch, match="not complete"):
                offsets(log[:size])

    def test_its_offset_is_told(self) -> None:
        with pytest.raises(UnreadableBatch, match="at offset 1099511627776 ") as raised:
            offsets(build(ROWS, base_offset=1 << 40)[:-1])
        assert raised.value.offset == 1 << 40


class TestUnreadable:
    def test_batches_before_it_are_read(self) -> None:
        batches = committed(memoryview(build(ROWS) + changed(build(ROWS), base_offset=4)[:-1] + b"X"), (), 0)
        assert next(batches).head.base_offset == 0
        with pytest.raises(UnreadableBatch, match=r"at offset 4 .*checksum"):
            next(batches)

    @given(st.integers(17, len(build(ROWS)) - 1), st.integers(1, 255))
    def test_any_other_byte_is_noticed(self, place: int, change: int) -> None:
        log = bytearray(build(ROWS))
        log[place] ^= change
        with pytest.raises(UnreadableBatch, match=r"at offset 0 .*checksum"):
            offsets(bytes(log))

    @pytest.mark.parametrize("magic", [0, 1])
    def test_of_an_old_format(self, magic: int) -> None:
        old = struct.pack(">qiib", 7, 30, 0, magic) + bytes(25)
        with pytest.raises(UnreadableBatch, match=rf"at offset 7 .*format v{magic}, which no Kafka since 0\.11 writes"):
            offsets(old)

    def test_of_a_format_to_come(self) -> None:
        with pytest.raises(UnreadableBatch, match="format v3, which is not known"):
            offsets(changed(build(ROWS), magic=3))

    @pytest.mark.parametrize("length", [48, 0, -1, -(1 << 31)])
    def test_a_length_that_is_too_small(self, length: int) -> None:
        with pytest.raises(UnreadableBatch, match="less than that of its head"):
            offsets(changed(build(ROWS), length=length))

    @pytest.mark.parametrize("count", [-1, 0, 3, 5, (1 << 31) - 1])
    @pytest.mark.parametrize("codec", [0, LZ4])
    def test_another_count(self, count: int, codec: int) -> None:
        with pytest.raises(UnreadableBatch, match="records"):
            offsets(changed(build(ROWS, codec), count=count))

    def test_its_end_is_before_its_start(self) -> None:
        with pytest.raises(UnreadableBatch, match="before its first"):
            offsets(changed(build(ROWS), last_offset_delta=-1))

    @pytest.mark.parametrize("delta", [-1, -30])
    def test_before_the_first_offset_of_all(self, delta: int) -> None:
        with pytest.raises(UnreadableBatch, match="negative"):
            offsets(changed(build(ROWS), base_offset=delta))

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_a_codec_that_is_not_known(self, codec: int) -> None:
        with pytest.raises(UnreadableBatch, match=f"no codec has the number {codec}"):
            offsets(changed(build(ROWS), attributes=codec))

    @given(st.data())
    @pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
    def test_bodies_that_are_wrong_though_their_checksum_is_right(self, codec: int, data: st.DataObject) -> None:
        good = build(ROWS, codec)
        body = bytearray(good[HEAD_SIZE:])
        for _ in range(data.draw(st.integers(1, 3))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.just(len(body)) | st.integers(0, len(body)))
        try:
            found = seen(changed(good, bytes(body[:cut])))
        except UnreadableBatch as error:
            assert error.offset == 0  # noqa: PT017  # both may be
        else:
            assert len(found) == len(ROWS)


class Step(NamedTuple):
    """A batch of a log. kind: "data", "plain" (of no transaction), or how one ends: "abort", "commit"."""

    producer: int
    kind: str
    records: int = 1


def log_of(steps: Sequence[Step], base: int = 0) -> list[bytes]:
    """Batches, offsets ascending from `base`."""
    log = []
    for step in steps:
        if step.kind in ("abort", "commit"):
            log.append(marker(base, step.producer, ABORT if step.kind == "abort" else COMMIT))
            base += 1
            continue
        attributes = TRANSACTIONAL if step.kind == "data" else 0
        rows = [Row(place, 1, None, b"v") for place in range(step.records)]
        log.append(build(rows, attributes=attributes, base_offset=base, producer_id=step.producer))
        base += step.records
    return log


A, B = 1, 2
TABLE: dict[str, tuple[list[Step], list[Aborted], list[int]]] = {
    "nothing of a transaction": ([Step(-1, "plain", 2), Step(A, "plain")], [], [0, 1, 2]),
    "marks are never seen": ([Step(A, "data"), Step(A, "commit"), Step(-1, "plain")], [], [0, 2]),
    "aborted": ([Step(A, "data", 2), Step(A, "abort")], [Aborted(A, 0)], []),
    "aborted, then committed": (
        [Step(A, "data"), Step(A, "abort"), Step(A, "data"), Step(A, "commit")],
        [Aborted(A, 0)],
        [2],
    ),
    "committed, then aborted": (
        [Step(A, "data"), Step(A, "commit"), Step(A, "data"), Step(A, "abort")],
        [Aborted(A, 2)],
        [0],
    ),
    "aborted twice": (
        [Step(A, "data"), Step(A, "abort"), Step(A, "data"), Step(A, "abort"), Step(A, "data"), Step(A, "commit")],
        [Aborted(A, 0), Aborted(A, 2)],
        [4],
    ),
    "told in another order": (
        [Step(A, "data"), Step(A, "abort"), Step(A, "data"), Step(A, "commit"), Step(A, "data"), Step(A, "abort")],
        [Aborted(A, 4), Aborted(A, 0)],
        [2],
    ),
    "interleaved": (
        [Step(A, "data"), Step(B, "data", 2), Step(A, "data"), Step(B, "commit"), Step(A, "abort"), Step(B, "data")],
        [Aborted(A, 0)],
        [1, 2, 6],
    ),
    "another's abort ends nothing": (
        [Step(A, "data"), Step(B, "data"), Step(B, "abort"), Step(A, "data"), Step(A, "abort")],
        [Aborted(A, 0), Aborted(B, 1)],
        [],
    ),
    "begun before what is read": ([Step(A, "data"), Step(A, "abort"), Step(A, "data")], [Aborted(A, -90)], [2]),
    "begun in the middle of a batch": ([Step(A, "data", 3), Step(A, "abort")], [Aborted(A, 2)], []),
    "begun right behind a batch": ([Step(A, "data", 3), Step(A, "commit")], [Aborted(A, 3)], [0, 1, 2]),
    "its producer writes without one too": (
        [Step(A, "data"), Step(A, "plain"), Step(A, "abort")],
        [Aborted(A, 0)],
        [1],
    ),
    "an end that is not read yet": ([Step(A, "data"), Step(B, "data")], [Aborted(A, 0)], [1]),
    "an abort of nothing": ([Step(A, "abort"), Step(A, "data")], [], [1]),
}


@st.composite
def transactions(draw: st.DrawFn) -> list[Step]:
    """Any log of some producers, whose transactions all end."""
    steps, producers = [], st.integers(1, 3)
    for _ in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["data", "data", "plain", "abort", "commit"]))
        producer = draw(producers | st.just(-1)) if kind == "plain" else draw(producers)
        steps.append(Step(producer, kind, draw(st.integers(1, 3))))
    return steps + [Step(producer, draw(st.sampled_from(["abort", "commit"]))) for producer in (1, 2, 3)]


class Told(NamedTuple):
    """A transaction that was aborted: its first offset, and that of its mark."""

    producer: int
    first: int
    last: int


def decided(steps: Sequence[Step]) -> tuple[list[int], list[Told]]:
    """What becomes of a log: the offsets that are to be seen, and what was aborted. Looks ahead, unlike a reader."""
    plain: list[int] = []
    began: dict[int, list[int]] = {}
    aborted, offset = [], 0
    for step in steps:
        size = step.records if step.kind in ("data", "plain") else 1
        if step.kind == "plain":
            plain += range(offset, offset + size)
        elif step.kind == "data":
            began.setdefault(step.producer, []).extend(range(offset, offset + size))
        elif own := began.pop(step.producer, []):
            if step.kind == "commit":
                plain += own
            else:
                aborted.append(Told(step.producer, own[0], offset))
        offset += size
    return sorted(plain), aborted


class TestTransactions:
    @pytest.mark.parametrize("name", TABLE)
    def test_table(self, name: str) -> None:
        steps, aborted, expected = TABLE[name]
        assert offsets(b"".join(log_of(steps)), aborted) == expected

    @given(transactions(), st.randoms(use_true_random=False), st.data())
    def test_any_log_from_any_offset(self, steps: list[Step], shuffle: random.Random, data: st.DataObject) -> None:
        visible, aborted = decided(steps)
        log = log_of(steps)
        start = data.draw(st.integers(0, len(log) - 1))
        base = next(heads(memoryview(log[start])))[0].base_offset
        told = [Aborted(one.producer, one.first) for one in aborted if one.last >= base]
        shuffle.shuffle(told)
        assert offsets(b"".join(log[start:]), told, base) == [offset for offset in visible if offset >= base]

    def test_hidden_batches_tell_where_the_log_goes_on(self) -> None:
        log = b"".join(log_of([Step(A, "data", 3), Step(A, "abort"), Step(B, "data")], 10))
        found = [*committed(memoryview(log), [Aborted(A, 10)], 10)]
        assert [one.head.next_offset for one in found] == [13, 14, 15]
        assert [len(one.columns.offsets) for one in found] == [0, 0, 1]

    def test_hidden_bodies_are_not_read(self) -> None:
        broken = changed(log_of([Step(A, "data", 3)])[0], b"no records")
        assert offsets(broken, [Aborted(A, 0)]) == []

    @pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", 0, 2), struct.pack(">hh", 0, -1)])
    def test_marks_of_another_kind_end_nothing(self, key: bytes | None) -> None:
        mark = build([Row(0, 1, key, None)], attributes=TRANSACTIONAL | CONTROL, base_offset=1, producer_id=A)
        data, _, more = log_of([Step(A, "data"), Step(A, "abort"), Step(A, "data")])
        assert offsets(data + mark + more, [Aborted(A, 0)]) == []

    def test_marks_of_a_later_version_are_understood(self) -> None:
        key = struct.pack(">hhq", 1, ABORT, 7)
        mark = build([Row(0, 1, key, None)], attributes=TRANSACTIONAL | CONTROL, base_offset=1, producer_id=A)
        data, _, more = log_of([Step(A, "data"), Step(A, "abort"), Step(A, "data")])
        assert offsets(data + mark + more, [Aborted(A, 0)]) == [2]

    def test_a_mark_that_compaction_has_emptied_ends_nothing(self) -> None:
        data, mark, more = log_of([Step(A, "data"), Step(A, "abort"), Step(A, "data")])
        assert offsets(data + changed(mark, b"", count=0) + more, [Aborted(A, 0)]) == []


READERS: list[Callable[[memoryview], object]] = [
    lambda log: [*heads(log)],
    lambda log: [*committed(log, [Aborted(1, 0)], 0)],
    lambda log: batch(Head(0, 0, LZ4, 0, 0, 0, -1, 1), log),
]


@given(st.binary(max_size=150), st.sampled_from(READERS))
def test_noise_is_read_or_unreadable(log: bytes, reader: Callable[[memoryview], object]) -> None:
    try:
        reader(memoryview(log))
    except UnreadableBatch as error:
        assert str(error)  # noqa: PT017  # both may be
