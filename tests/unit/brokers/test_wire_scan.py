"""The places of records in a body, found in C: of all bodies that brokers accept, and safely of all others."""

import ctypes
import mmap
import struct
from array import array
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import varint
from headwater.native import scan_records
from tests.support.kafka_batches import HEAD_SIZE, Row, build, rows_of

TEXTS = st.none() | st.binary(max_size=70) | st.just(b"x" * 9000)
HEADERS = st.lists(st.tuples(st.text(max_size=5), TEXTS), max_size=3)
TIMES = st.integers(0, 1 << 45)


@st.composite
def many_rows(draw: st.DrawFn) -> list[Row]:
    deltas = sorted(draw(st.sets(st.integers(0, (1 << 31) - 1) | st.integers(0, 70), min_size=1, max_size=20)))
    return [Row(delta, draw(TIMES), draw(TEXTS), draw(TEXTS), draw(HEADERS)) for delta in deltas]


def body_of(rows: list[Row]) -> bytes:
    return build(rows)[HEAD_SIZE:]


def scanned(body: Any, rows: list[Row], base_offset: int = 0, append_ms: int = -1) -> list[tuple[Any, ...]]:
    return rows_of(body, scan_records(body, len(rows), base_offset, rows[0].time, append_ms))


class Guarded:
    """Memory whose end is the end of what may be read."""

    def __init__(self) -> None:
        self._size = mmap.PAGESIZE * 8
        self._map = mmap.mmap(-1, self._size + mmap.PAGESIZE)
        behind = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + self._size
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(behind), mmap.PAGESIZE, 0) == 0

    def place(self, body: bytes) -> memoryview:
        start = self._size - len(body)
        self._map[start : self._size] = body
        return memoryview(self._map)[start : self._size]


GUARDED = Guarded()
FEW = [
    Row(0, 5_000, b"key", b"value" * 9, [("a", b"b"), ("c", None)]),
    Row(1, 4_000, None, b"", []),
    Row(9, 1 << 40, b"", None, [("", b"x" * 200)]),
]


class TestRecords:
    @given(many_rows(), st.integers(0, 1 << 60))
    def test_any_come_back(self, rows: list[Row], base: int) -> None:
        expected = [(base + row.delta, row.time, row.key, row.value) for row in rows]
        assert scanned(body_of(rows), rows, base) == expected

    @given(many_rows(), st.integers(0, 1 << 60))
    def test_the_time_of_all_is_when_they_were_appended(self, rows: list[Row], append_ms: int) -> None:
        assert {time for _, time, *_ in scanned(body_of(rows), rows, append_ms=append_ms)} == {append_ms}

    def test_a_time_that_is_missing_is_zero(self) -> None:
        found = scan_records(body_of([Row(0, 0, None, b"v"), Row(1, 3, None, b"w")]), 2, 0, -1)
        assert found.times == array("q", [0, 2])

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda body: memoryview(bytearray(body))])
    def test_of_whatever_holds_bytes(self, kind: Any) -> None:
        body = body_of(FEW)
        assert scanned(kind(body), FEW) == scanned(body, FEW)

    def test_of_a_part_of_a_view(self) -> None:
        body = body_of(FEW)
        assert scanned(memoryview(b"123" + body + b"45")[3:-2], FEW) == scanned(body, FEW)

    def test_none(self) -> None:
        assert scan_records(b"", 0, 7, 7).offsets == array("q")

    def test_any_negative_size_is_a_null(self) -> None:
        body = record(*START, varint(-9), varint(-(1 << 31)), varint(0))
        assert rows_of(body, scan_records(body, 1, 0, 1)) == [(0, 1, None, None)]


def record(*fields: bytes) -> bytes:
    content = b"\0" + b"".join(fields)
    return varint(len(content)) + content


ENDLESS = b"\x80" * 5 + b"\0"
START = (varint(0), varint(0))
MALFORMED = {
    "an offset of six bytes": record(varint(0), ENDLESS, varint(-1), varint(-1), varint(0)),
    "a time of eleven bytes": record(b"\x80" * 10 + b"\0", varint(0), varint(-1), varint(-1), varint(0)),
    "a key that is larger than the record": record(*START, varint(9), b"key", varint(-1), varint(0)),
    "a value that is larger than the record": record(*START, varint(-1), varint(9), b"value", varint(0)),
    "a value as large as can be": record(*START, varint(-1), varint((1 << 31) - 1), b"value", varint(0)),
    "headers fewer than none": record(*START, varint(-1), varint(-1), varint(-1)),
    "headers that are not there": record(*START, varint(-1), varint(-1), varint((1 << 31) - 1)),
    "a header without a name": record(*START, varint(-1), varint(-1), varint(1), varint(-1), varint(-1)),
    "something behind the headers": record(*START, varint(-1), varint(-1), varint(0), b"x"),
    "an empty record": varint(0) + b"1234567",
    "a length below zero": varint(-5) + b"1234567",
    "a length as large as can be": varint((1 << 31) - 1) + b"1234567",
    "a length of six bytes": ENDLESS + b"1234567",
}


class TestMalformed:
    @pytest.mark.parametrize("name", MALFORMED)
    def test_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="are not 1 records"):
            scan_records(GUARDED.place(MALFORMED[name]), 1, 0, 0)

    @pytest.mark.parametrize("count", [2, 4, -1, 1 << 40])
    def test_another_count(self, count: int) -> None:
        with pytest.raises(ValueError, match="records"):
            scan_records(body_of(FEW), count, 0, 0)

    def test_cut_off_anywhere(self) -> None:
        body = body_of(FEW)
        for size in range(len(body)):
            with pytest.raises(ValueError, match="records"):
                scan_records(GUARDED.place(body[:size]), len(FEW), 0, 0)

    def test_bytes_left_over(self) -> None:
        with pytest.raises(ValueError, match="are not 3 records"):
            scan_records(GUARDED.place(body_of(FEW) + b"\0"), len(FEW), 0, 0)

    @given(st.data())
    def test_with_other_bytes_nothing_is_read_or_found_outside(self, data: st.DataObject) -> None:
        body = bytearray(body_of(FEW))
        for _ in range(data.draw(st.integers(1, 4))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        safe(bytes(body), len(FEW))

    @given(st.binary(max_size=200), st.integers(0, 30))
    @example(struct.pack(">q", -1) * 3, 1)
    def test_noise(self, body: bytes, count: int) -> None:
        safe(body, count)


def safe(body: bytes, count: int) -> None:
    placed = GUARDED.place(body)
    try:
        found = scan_records(placed, count, 1 << 62, -(1 << 62))
    except ValueError:
        return
    assert len(rows_of(placed, found)) == count
    assert min(found.times, default=0) >= 0
