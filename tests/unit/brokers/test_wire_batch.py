"""Record batches, read by another implementation of the format."""

from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import FRAMING_BYTES, Batch, Producer, Records, pack, seal, varint
from headwater.model.record import Headers
from headwater.native import Positions, sizes_of

TEXTS = st.binary(max_size=300) | st.just(b"x" * 9000)
ROWS = st.lists(
    st.tuples(st.none() | TEXTS, st.none() | st.binary(max_size=90), st.integers(0, 1 << 45)), min_size=1, max_size=40
)
HEADERS = st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=9)), max_size=3)
LIMIT = (1 << 63) - 1


def records(rows: list[tuple[bytes | None, bytes | None, int]], headers: Headers, **last: Any) -> Records:
    values, keys, times = map(list, zip(*rows, strict=True))
    return Records(values, sizes_of(values), keys, times, headers, **last)


def read(batch: Batch) -> list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]:
    found = MemoryRecords(b"".join(batch)).next_batch()
    assert found.validate_crc()
    return [(r.value, r.key, r.timestamp, [*r.headers]) for r in found]


class TestBatch:
    @given(ROWS, HEADERS)
    def test_any_record_comes_back(self, rows: list[Any], headers: Headers) -> None:
        assert read(seal(pack(records(rows, headers)), Producer(7, 1), 5)) == [(*row, headers) for row in rows]

    @given(ROWS, HEADERS, st.data())
    def test_a_header_with_a_value_per_record(self, rows: list[Any], headers: Headers, data: st.DataObject) -> None:
        lasts = [data.draw(st.binary(max_size=200)) for _ in rows]
        batch = seal(pack(records(rows, headers, last="src", lasts=lasts)), Producer(7, 1), 5)
        expected = [(*row, [*headers, ("src", last)]) for row, last in zip(rows, lasts, strict=True)]
        assert read(batch) == expected

    @given(ROWS, st.data())
    def test_a_header_that_tells_positions(self, rows: list[Any], data: st.DataObject) -> None:
        numbers = st.integers(0, LIMIT)
        offsets, indexes = ([data.draw(numbers) for _ in rows] for _ in range(2))
        lasts = Positions(b"topic/3/", offsets, indexes)
        told = [
            header[3][0][1] for header in read(seal(pack(records(rows, [], last="s", lasts=lasts)), Producer(7, 1), 5))
        ]
        assert told == [b"topic/3/%d/%d" % pair for pair in zip(offsets, indexes, strict=True)]

    def test_who_sends_it_and_when(self) -> None:
        rows: list[tuple[bytes | None, bytes | None, int]] = [(b"v" * 900, None, 5_000), (b"v" * 900, None, 4_000)]
        packed = pack(records(rows, []))
        assert (packed.records, packed.first_ms, packed.last_ms) == (2, 5_000, 5_000)
        found: Any = MemoryRecords(b"".join(seal(packed, Producer(1 << 40, 9), 77))).next_batch()
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (1 << 40, 9, 77)
        assert found.compression_type == 3

    @given(ROWS)
    def test_what_a_record_takes_at_most(self, rows: list[Any]) -> None:
        texts = sum(len(text or b"") for value, key, _ in rows for text in (value, key))
        packed = pack(records(rows, []))
        assert len(packed.body) <= texts + FRAMING_BYTES * len(rows)


@given(st.integers(-(1 << 62), 1 << 62))
def test_numbers_are_zigzag_in_sevens_of_bits(number: int) -> None:
    encoded, value = varint(number), 0
    for place, byte in enumerate(encoded):
        assert (byte < 0x80) == (place == len(encoded) - 1)
        value |= (byte & 0x7F) << (7 * place)
    assert (value >> 1) ^ -(value & 1) == number
