"""The request Fetch and its answer, against another implementation of the types of Kafka's protocol."""

import struct
from typing import Any

import pytest
from aiokafka.protocol.types import (
    AbstractType,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    UnsignedVarInt32,
)
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.fetch import Aborted, Answer, Fetch, Fetched, Wanted


class Tags(AbstractType):  # type: ignore[misc]  # aiokafka has no types
    """Tagged fields, which aiokafka writes without their sizes."""

    @classmethod
    def encode(cls, value: dict[int, bytes]) -> Any:
        number = UnsignedVarInt32.encode
        return number(len(value)) + b"".join(number(tag) + number(len(data)) + data for tag, data in value.items())


REQUEST = Schema(
    ("api_key", Int16),
    ("api_version", Int16),
    ("correlation_id", Int32),
    ("client_id", String()),
    ("header_tags", Tags),
    ("replica_id", Int32),
    ("max_wait_ms", Int32),
    ("min_bytes", Int32),
    ("max_bytes", Int32),
    ("isolation_level", Int8),
    ("session_id", Int32),
    ("session_epoch", Int32),
    (
        "topics",
        CompactArray(
            ("topic", CompactString()),
            (
                "partitions",
                CompactArray(
                    ("partition", Int32),
                    ("current_leader_epoch", Int32),
                    ("fetch_offset", Int64),
                    ("last_fetched_epoch", Int32),
                    ("log_start_offset", Int64),
                    ("partition_max_bytes", Int32),
                    ("tags", Tags),
                ),
            ),
            ("tags", Tags),
        ),
    ),
    ("forgotten_topics_data", CompactArray(Int32)),
    ("rack_id", CompactString()),
    ("tags", Tags),
)
ANSWER = Schema(
    ("header_tags", Tags),
    ("throttle_time_ms", Int32),
    ("error_code", Int16),
    ("session_id", Int32),
    (
        "responses",
        CompactArray(
            ("topic", CompactString()),
            (
                "partitions",
                CompactArray(
                    ("partition_index", Int32),
                    ("error_code", Int16),
                    ("high_watermark", Int64),
                    ("last_stable_offset", Int64),
                    ("log_start_offset", Int64),
                    (
                        "aborted_transactions",
                        CompactArray(("producer_id", Int64), ("first_offset", Int64), ("tags", Tags)),
                    ),
                    ("preferred_read_replica", Int32),
                    ("records", CompactBytes),
                    ("tags", Tags),
                ),
            ),
            ("tags", Tags),
        ),
    ),
    ("tags", Tags),
)
DIVERGING = Schema(("epoch", Int32), ("end_offset", Int64), ("tags", Tags))

INTS, LONGS = st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1)
NAMES = st.text(min_size=1, max_size=249)
UNKNOWN = st.dictionaries(st.integers(2, 300), st.binary(max_size=200), max_size=2)


def nullable(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[int]:
    return numbers | st.just(-1)


@given(NAMES, st.lists(st.builds(Wanted, INTS, nullable(INTS), LONGS, nullable(INTS)), max_size=200), INTS, INTS, INTS)
def test_the_request(topic: str, wanted: list[Wanted], number: int, most: int, each: int) -> None:
    fetch = Fetch(topic, wanted, 0.5, min_bytes=7, max_bytes=most, partition_max_bytes=each)
    partitions: list[Any] = [
        (p, leader_epoch, offset, last_epoch, -1, each, {}) for p, leader_epoch, offset, last_epoch in wanted
    ]
    limits = (-1, 500, 7, most, 1, 0, -1)
    header: Any = (1, 12, number, "headwater", {})
    expected = REQUEST.encode([*header, *limits, [(topic, partitions, {})], [], "", {}])
    assert b"".join(fetch.parts(number)) == expected


FETCH = Fetch("topic", [], 0, max_bytes=1, partition_max_bytes=1)


def encoded(answer: Answer, unknown: dict[int, bytes] | None = None, topic: str = "topic") -> Any:
    """unknown: tagged fields, for wherever there may be some."""
    more = unknown or {}
    partitions = []
    for partition in answer.partitions:
        aborted = [(*one, more) for one in partition.aborted]
        tags = dict(more)
        if partition.diverging:
            tags = {0: DIVERGING.encode([*partition.diverging, more]), **tags}
        partitions.append((*partition[:5], aborted, -1, bytes(partition.records), tags))
    return ANSWER.encode([more, answer.throttle_ms, answer.error, 0, [(topic, partitions, more)], more])


CODES = st.integers(-1, 120)
PARTITIONS = st.builds(
    Fetched,
    INTS,
    CODES,
    nullable(LONGS),
    nullable(LONGS),
    nullable(LONGS),
    st.lists(st.builds(Aborted, LONGS, LONGS), max_size=3),
    st.none() | st.tuples(INTS, LONGS),
    st.binary(max_size=300).map(memoryview),
)
ANSWERS = st.builds(Answer, CODES, INTS, st.lists(PARTITIONS, max_size=130))
ONE = Answer(0, 0, [Fetched(3, 0, 90, 80, 7, [Aborted(1, 2), Aborted(3, 4)], (5, 6), memoryview(b"records" * 30))])


class TestAnswer:
    @given(ANSWERS, UNKNOWN)
    def test_any_is_read(self, answer: Answer, unknown: dict[int, bytes]) -> None:
        assert FETCH.answer(memoryview(encoded(answer, unknown))) == answer

    def test_records_are_not_copied(self) -> None:
        payload = bytearray(encoded(ONE))
        records = FETCH.answer(memoryview(payload)).partitions[0].records
        at = payload.index(b"records")
        payload[at : at + 7] = b"RECORDS"
        assert bytes(records[:7]) == b"RECORDS"

    def test_nulls_are_empty(self) -> None:
        partition: Any = (3, 0, 9, 9, 0, None, -1, None, {})
        payload = ANSWER.encode([{}, 0, 0, 0, [("topic", [partition], {})], {}])
        (found,) = FETCH.answer(memoryview(payload)).partitions
        assert (found.aborted, bytes(found.records)) == ([], b"")

    def test_an_error_of_the_whole_has_no_partitions(self) -> None:
        assert FETCH.answer(memoryview(ANSWER.encode([{}, 5, 70, 0, [], {}]))) == Answer(70, 5, [])

    def test_what_the_broker_does_not_know_is_not_there(self) -> None:
        tags = {0: DIVERGING.encode([-1, -1, {}])}
        payload = ANSWER.encode([{}, 0, 0, 0, [("topic", [(3, 0, 9, 9, 0, [], -1, b"", tags)], {})], {}])
        (found,) = FETCH.answer(memoryview(payload)).partitions
        assert found.diverging is None

    def test_cut_off_anywhere_it_is_malformed(self) -> None:
        payload = encoded(ONE, {7: b"unknown"})
        for size in range(len(payload)):
            with pytest.raises((ValueError, struct.error)):
                FETCH.answer(memoryview(payload)[:size])

    def test_bytes_left_over_are_malformed(self) -> None:
        with pytest.raises(ValueError, match="1 bytes behind"):
            FETCH.answer(memoryview(encoded(ONE) + b"\0"))

    def test_another_topic_is_malformed(self) -> None:
        with pytest.raises(ValueError, match="another topic than topic"):
            FETCH.answer(memoryview(encoded(ONE, topic="other")))

    def test_a_field_that_is_too_short_is_malformed(self) -> None:
        payload = ANSWER.encode([{}, 0, 0, 0, [("topic", [(3, 0, 9, 9, 0, [], -1, b"", {0: b"123"})], {})], {}])
        with pytest.raises((ValueError, struct.error)):
            FETCH.answer(memoryview(payload))

    @given(st.data())
    def test_with_other_bytes_it_is_read_or_malformed(self, data: st.DataObject) -> None:
        payload = bytearray(encoded(ONE, {7: b"unknown"}))
        for _ in range(data.draw(st.integers(1, 3))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        try:
            FETCH.answer(memoryview(payload))
        except (ValueError, struct.error) as error:
            assert str(error)  # noqa: PT017  # both may be

    @given(st.binary(max_size=90))
    def test_noise_is_read_or_malformed(self, payload: bytes) -> None:
        try:
            FETCH.answer(memoryview(payload))
        except (ValueError, struct.error) as error:
            assert str(error)  # noqa: PT017  # both may be
