"""Values that are encoded all at once equal values that are encoded one by one."""

import random

from hypothesis import given
from hypothesis import strategies as st

from headwater.stores.redis.sets import encoded_values, value_encoding

HEX = st.binary(min_size=20, max_size=20).map(bytes.hex)
VALUES = st.one_of(
    HEX.map("0x".__add__),
    HEX.map("0x".__add__).map(str.upper),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.binary(min_size=32, max_size=32).map(bytes.hex).map("0x".__add__),
    st.text("0123456789abcdef x", min_size=42, max_size=42),
    st.text("123456789ABCdef", min_size=42, max_size=44),
    st.text(max_size=30),
    st.text(st.characters(), min_size=42, max_size=42),
)


def by_row(batches: list[encoded_values.EncodedValues], key: int) -> dict[int, tuple[bytes, int]]:
    """Return the encoding and the hash of each value by row."""
    found: dict[int, tuple[bytes, int]] = {}
    for one in batches:
        rows = one.rows.tolist()
        found |= dict(zip(rows, zip(one.to_list(), one.hashes(key).tolist(), strict=True), strict=True))
    return found


@given(st.lists(VALUES, max_size=30), st.integers(0, 2**64 - 1))
def test_any_values(some: list[str], key: int) -> None:
    stored = [value_encoding.encode(value) for value in some]
    expected = dict(enumerate(zip(stored, value_encoding.hashes(stored, key), strict=True)))
    assert by_row(encoded_values.encode(some), key) == expected


@given(st.integers(1, 80), st.integers(), st.integers(0, 2**64 - 1))
def test_hash_of_every_width(width: int, seed: int, key: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(rng.choices("ghijk", k=width)) for _ in range(encoded_values.SMALL_BATCH + 1)]
    (one,) = encoded_values.encode(texts)
    assert one.hashes(key).tolist() == value_encoding.hashes(one.to_list(), key)


def test_no_values() -> None:
    assert encoded_values.encode([]) == []
