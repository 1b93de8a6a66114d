"""Record batches, read by another implementation of the format."""

from typing import Any, NamedTuple

from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.batch import FRAMING_BYTES, Packed, Producer, pack, seal, varint
from headwater.model.record import Headers
from headwater.native import Portion, Positions, Texts
from tests.support.columns import numbered, numbers
from tests.support.kafka_batches import Read, read

SENDER = Producer(7, 1)
LIMIT = (1 << 63) - 1
NUMBERS = st.integers(0, LIMIT)
Row = tuple[bytes | None, bytes | None, int]


class Part(NamedTuple):
    """Records of value, key and time; and those that go into the batch, by their numbers."""

    rows: list[Row]
    chosen: list[int]

    def portion(self, tails: Texts | Positions | None = None) -> Portion:
        values, keys, times = zip(*self.rows, strict=True)
        return Portion(numbered(self.chosen), Texts.of(values), Texts.of(keys), numbers(times), tails)


def chosen(rows: list[Row]) -> st.SearchStrategy[Part]:
    everything = st.just([*range(len(rows))])
    return st.builds(
        Part, st.just(rows), everything | st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=40)
    )


TEXTS = st.binary(max_size=300) | st.just(b"x" * 9000)
ROWS = st.tuples(st.none() | TEXTS, st.none() | st.binary(max_size=90), st.integers(0, 1 << 45))
PARTS = st.lists(st.lists(ROWS, min_size=1, max_size=40).flatmap(chosen), min_size=1, max_size=3)
HEADERS = st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=9)), max_size=3)


def opened(packed: Packed) -> list[Read]:
    return read(seal(packed, SENDER, 5))


class TestBatch:
    @given(PARTS, HEADERS)
    def test_any_record_comes_back(self, parts: list[Part], headers: Headers) -> None:
        packed = pack([part.portion() for part in parts], headers)
        expected = [(*part.rows[row], headers) for part in parts for row in part.chosen]
        assert opened(packed) == expected
        times = [time for _, _, time, _ in expected]
        assert (packed.records, packed.first_ms, packed.last_ms) == (len(expected), times[0], max(times))

    @given(PARTS, HEADERS, st.data())
    def test_a_header_with_a_value_per_record(self, parts: list[Part], headers: Headers, data: st.DataObject) -> None:
        tails = [[data.draw(st.none() | st.binary(max_size=200)) for _ in part.rows] for part in parts]
        packed = pack([part.portion(Texts.of(own)) for part, own in zip(parts, tails, strict=True)], headers, "src")
        assert opened(packed) == [
            (*part.rows[row], [*headers, ("src", own[row])])
            for part, own in zip(parts, tails, strict=True)
            for row in part.chosen
        ]

    @given(PARTS, HEADERS, st.data())
    def test_a_header_that_tells_positions(self, parts: list[Part], headers: Headers, data: st.DataObject) -> None:
        portions, told = [], []
        for number, (rows, chosen) in enumerate(parts):
            prefix = b"topic/%d/" % number
            offsets, indexes = ([data.draw(NUMBERS) for _ in rows] for _ in range(2))
            portions.append(Part(rows, chosen).portion(Positions(prefix, numbers(offsets), numbers(indexes))))
            told += [
                (*rows[row], [*headers, ("s", b"%b%d/%d" % (prefix, offsets[row], indexes[row]))]) for row in chosen
            ]
        assert opened(pack(portions, headers, "s")) == told

    def test_who_sends_it_and_when(self) -> None:
        part = Part([(None, None, 9_000), (b"v" * 900, None, 5_000), (b"v" * 900, None, 4_000)], [1, 2])
        packed = pack([part.portion()], [])
        assert (packed.records, packed.first_ms, packed.last_ms) == (2, 5_000, 5_000)
        found: Any = MemoryRecords(b"".join(seal(packed, Producer(1 << 40, 9), 77))).next_batch()
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (1 << 40, 9, 77)
        assert found.compression_type == 3

    @given(PARTS)
    def test_what_a_record_takes_at_most(self, parts: list[Part]) -> None:
        sent = [part.rows[row] for part in parts for row in part.chosen]
        texts = sum(len(text or b"") for value, key, _ in sent for text in (value, key))
        assert len(pack([part.portion() for part in parts], []).body) <= texts + FRAMING_BYTES * len(sent)


@given(st.integers(-(1 << 62), 1 << 62))
def test_numbers_are_zigzag_in_sevens_of_bits(number: int) -> None:
    encoded, value = varint(number), 0
    for place, byte in enumerate(encoded):
        assert (byte < 0x80) == (place == len(encoded) - 1)
        value |= (byte & 0x7F) << (7 * place)
    assert (value >> 1) ^ -(value & 1) == number
