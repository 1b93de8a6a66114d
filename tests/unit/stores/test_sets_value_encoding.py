"""The encoding of values, and their distribution over buckets and positions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.stores.redis.sets import value_encoding
from headwater.stores.redis.sets.layout import SetGeneration

HEX = st.text("0123456789abcdef", min_size=38, max_size=66)
TEXTS = st.one_of(st.text(), HEX, HEX.map("0x".__add__), st.binary(min_size=20, max_size=20).map(bytes.hex))


@pytest.mark.parametrize(
    ("value", "tag", "size"),
    [
        ("0x" + "ab" * 20, 1, 21),
        ("0x" + "ab" * 32, 2, 33),
        ("ab" * 32, 3, 33),
        ("ab" * 20, 0, 41),
        ("0x" + "AB" * 20, 0, 43),
        ("0x" + "ab" * 31, 0, 65),
        ("0x" + "ab" * 19 + "xy", 0, 43),
        ("0x" + "ab" * 19 + "a\n", 0, 43),
        ("0x" + "٣" * 40, 0, 83),
        ("so11111111111111111111111111111111111111112", 0, 44),
        ("\ud800", 0, 4),
    ],
)
def test_tag_and_size(value: str, tag: int, size: int) -> None:
    stored = value_encoding.encode(value)
    assert (stored[0], len(stored)) == (tag, size)
    assert value_encoding.decode(stored) == value


@given(TEXTS, TEXTS)
def test_the_encoding_is_injective(one: str, other: str) -> None:
    assert value_encoding.decode(value_encoding.encode(one)) == one
    assert (value_encoding.encode(one) == value_encoding.encode(other)) == (one == other)


@given(st.binary(min_size=1), st.integers(0, 2**64 - 1), st.integers(1, 24))
def test_the_order_of_buckets_is_the_order_of_positions(encoded: bytes, hash_seed: int, bits: int) -> None:
    generation = SetGeneration(tag="{ds:d1}", number=1, bits=bits, hash_seed=hash_seed, kind="set")
    values = generation.sort([encoded])
    [position], [bucket] = values.positions.tolist(), generation.bucket_numbers(values.hashes).tolist()
    assert values.hashes.tolist() == value_encoding.hashes([encoded], hash_seed)
    assert 0 <= position < 2**53
    assert position >> (53 - bits) == bucket


def test_the_seed_moves_values() -> None:
    encoded = value_encoding.encode("0x" + "ab" * 20)
    assert value_encoding.hashes([encoded], 1) != value_encoding.hashes([encoded], 2)
