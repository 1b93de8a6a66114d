"""Values of ABI types: equal to eth-abi's for clean logs, lenient for others, and bounded."""

import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from eth_abi.abi import decode as eth_decode
from eth_abi.abi import encode
from eth_abi.exceptions import DecodingError, ParseError
from eth_abi.registry import registry
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.evm.abi import Param, event_of_fragment
from headwater.ingest.evm.values import (
    MAX_DEPTH,
    MAX_READ_BYTES,
    amount_text,
    parameters,
    type_decoder_of,
    word_type_of,
)

WORD_TYPES = st.one_of(
    st.integers(1, 32).map(lambda n: f"uint{8 * n}"),
    st.integers(1, 32).map(lambda n: f"int{8 * n}"),
    st.integers(1, 32).map(lambda n: f"bytes{n}"),
    st.tuples(st.sampled_from(["fixed", "ufixed"]), st.integers(1, 32), st.integers(1, 80)).map(
        lambda kind: f"{kind[0]}{8 * kind[1]}x{kind[2]}"
    ),
    st.sampled_from(["address", "bool", "function"]),
)
WORDS = st.one_of(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**64).map(lambda n: n.to_bytes(32, "big")),
    st.integers(-(2**64), -1).map(lambda n: n.to_bytes(32, "big", signed=True)),
    st.integers(1, 32).flatmap(lambda n: st.binary(min_size=n, max_size=n)).map(lambda head: head.ljust(32, b"\0")),
    st.integers(1, 32).flatmap(lambda n: st.binary(min_size=n, max_size=n)).map(lambda tail: tail.rjust(32, b"\0")),
    st.sampled_from([0, 1, 2, 2**127, 2**160 - 1, 2**160, 2**255, 2**256 - 1]).map(lambda n: n.to_bytes(32, "big")),
)


def as_text(value: Any) -> Any:
    """An independent implementation of the form of values in records."""
    if isinstance(value, (list, tuple)):
        return [as_text(each) for each in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def param(kind: str, components: list[Any] | None = None) -> Param:
    entry = {"name": "a", "type": kind, "components": components or []}
    event = event_of_fragment({"type": "event", "name": "E", "inputs": [entry]})
    assert event is not None
    return event.params[0]


def read(kinds: list[str], data: bytes) -> list[Any]:
    return list(parameters(f"0x{data.hex()}", [type_decoder_of(param(kind)) for kind in kinds]))


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


@given(WORD_TYPES, WORDS)
def test_a_clean_word_is_what_eth_abi_reads(kind: str, content: bytes) -> None:
    word = word_type_of(kind)
    assert word is not None
    try:
        (expected,) = eth_decode([kind], content)
    except DecodingError:
        assert not word.is_clean(content.hex())
    else:
        assert word.is_clean(content.hex())
        assert word.read(content.hex()) == as_text(expected)


@given(WORD_TYPES, WORDS)
def test_only_the_bits_of_the_type_are_used_in_a_dirty_word(kind: str, content: bytes) -> None:
    number = int.from_bytes(content, "big")
    size: int = getattr(registry.get_decoder(kind), "value_bit_size")  # noqa: B009  # of all that are one word
    low = number % 2**size
    if kind.startswith(("bytes", "function")):
        clean = number >> 256 - size << 256 - size
    elif kind.startswith(("int", "fixed")) and low >> size - 1:
        clean = low + 2**256 - 2**size
    else:
        clean = min(low, 1) if kind == "bool" else low
    assert read([kind], content) == read([kind], words(clean))


VALUES = {
    "uint8": st.integers(0, 255), "int256": st.integers(-(2**255), 2**255 - 1), "bool": st.booleans(),
    "address": st.binary(min_size=20, max_size=20).map(lambda raw: f"0x{raw.hex()}"),
    "bytes4": st.binary(min_size=4, max_size=4), "bytes": st.binary(max_size=70), "string": st.text(max_size=40),
    "uint256[]": st.lists(st.integers(0, 2**256 - 1), max_size=4),
    "int64[2]": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2),
    "string[]": st.lists(st.text(max_size=9), max_size=3),
    "bytes[2][]": st.lists(st.lists(st.binary(max_size=40), min_size=2, max_size=2), max_size=3),
    "uint8[][3]": st.lists(st.lists(st.integers(0, 255), max_size=3), min_size=3, max_size=3),
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(VALUES)), max_size=5), st.data())
def test_encoded_values_are_decoded(kinds: list[str], data: st.DataObject) -> None:
    values = [data.draw(VALUES[kind]) for kind in kinds]
    assert read(kinds, encode(kinds, values)) == as_text(values)


def test_tuples_are_objects_and_arrays_of_them_lists() -> None:
    place = param("tuple[]", [
        {"name": "town", "type": "string"}, {"name": "at", "type": "tuple", "components": [
            {"name": "x", "type": "int8"}, {"name": "", "type": "bool"}]}])  # fmt: skip
    data = encode(["(string,(int8,bool))[]"], [[("Ulm", (-1, True)), ("", (1, False))]])
    assert list(parameters(f"0x{data.hex()}", [type_decoder_of(place)])) == [
        [{"town": "Ulm", "at": {"x": "-1", "arg1": "true"}}, {"town": "", "at": {"x": "1", "arg1": "false"}}]
    ]


def test_the_last_word_may_lack_its_padding() -> None:
    """Contracts of Solidity before 0.5 omit the padding."""
    content = b"12345678" * 2
    assert read(["uint256", "bytes"], words(16, 64, 16) + content) == ["16", "0x" + content.hex()]
    assert read(["string"], words(32, 5) + b"hello") == ["hello"]


def test_bytes_after_the_content_are_ignored() -> None:
    assert read(["bytes"], words(32, 2) + b"ab" + b"\xff" * 30) == ["0x6162"]


def test_truncated_content_is_rejected() -> None:
    with pytest.raises(ValueError, match="too little data"):
        read(["bytes"], words(32, 17) + b"12345678" * 2)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (bytes.fromhex("9f90e274657374"), "\ufffd\ufffd\ufffdtest"),
        (b"a\0b", "a\0b"),
        (bytes.fromhex("eda080"), "\ufffd\ufffd\ufffd"),
        (bytes.fromhex("f09f98"), "\ufffd"),
    ],
)
def test_invalid_utf_8_is_replaced(content: bytes, text: str) -> None:
    assert read(["string"], words(32, len(content)) + content) == [text]


@pytest.mark.parametrize(("size", "decimals", "text"), [(168, 10, "0.0000000001"), (8, 80, f"0.{'0' * 79}1")])
def test_fixed_point_numbers_have_plain_digits(size: int, decimals: int, text: str) -> None:
    assert read([f"fixed{size}x{decimals}"], words(1)) == [text]
    assert read([f"fixed{size}x{decimals}"], words(2**256 - 1)) == [f"-{text}"]
    assert read([f"ufixed{size}x{decimals}"], words(1)) == [text]


@pytest.mark.parametrize(
    ("raw", "decimals", "text"),
    [
        (1_250_000_000, 6, "1250"),
        (1, 18, "0.000000000000000001"),
        (0, 18, "0"),
        (10, 0, "10"),
        (5, 255, f"0.{'0' * 254}5"),
    ],
)
def test_amounts_in_whole_units(raw: int, decimals: int, text: str) -> None:
    assert amount_text(raw, decimals) == text


def same_bytes(offsets: int, size: int) -> bytes:
    """An array of bytes[] whose offsets all point to the same content."""
    return words(32, offsets, *[32 * offsets] * offsets, size) + b"\xab" * size


def same_arrays(depth: int, items: int = 30) -> bytes:
    """Nested arrays: on each level all offsets point to the same array of the next level."""
    return words(32, *(items, *[32 * items] * items) * (depth - 1), items, *[7] * items)


INFLATED = {
    "offsets to the same bytes": ("bytes[]", same_bytes(6_000, 192_000)),
    "a small one": ("bytes[]", same_bytes(400, 4_000)),
    "nested arrays": ("uint256[][][][]", same_arrays(4)),
    "arrays nested deeper": ("uint256" + "[]" * 12, same_arrays(12)),
    "tuples": ("uint8[1][1][]", words(32, 2**255)),
    "a count beyond all": ("string[]", words(32, 2**256 - 1) + words(*[0] * 100)),
    "an offset beyond all": ("string[]", words(2**256 - 1) + words(*[0] * 100)),
    "a fixed array beyond all": ("uint8[1000000000000]", words(*[0] * 100)),
}


@pytest.mark.parametrize("name", INFLATED)
def test_data_that_expands_too_much_is_rejected_in_bounded_memory(name: str) -> None:
    kind, data = INFLATED[name]
    decoders = [type_decoder_of(param(kind))]
    text = f"0x{data.hex()}"
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"too many bytes|too little data"):
            list(parameters(text, decoders))
        assert tracemalloc.get_traced_memory()[1] < 20 * MAX_READ_BYTES
    finally:
        tracemalloc.stop()


def test_offsets_may_share_what_they_point_to_within_the_bound() -> None:
    assert read(["bytes[]"], same_bytes(20, 320)) == [["0x" + "ab" * 320] * 20]


@given(st.sampled_from([*sorted(VALUES), "uint8[][][]", "string[][2]"]), st.data())
def test_any_data_is_decoded_within_the_limit_or_rejected(kind: str, draw: st.DataObject) -> None:
    data = b"".join(draw.draw(st.lists(st.one_of(st.integers(0, 12).map(lambda n: words(32 * n)), WORDS), max_size=40)))
    try:
        values = read([kind], data)
    except ValueError:
        return
    assert size_of(values) <= 32 * len(data)


def size_of(value: Any) -> int:
    """Return the minimum number of bytes of a type in the ABI's encoding."""
    return sum(map(size_of, value)) if isinstance(value, list) else 1


KINDS = st.recursive(
    st.one_of(WORD_TYPES, st.sampled_from(["bytes", "string", "uint7", "bytes33", "uint0", "int264", "fixed8x0", "x"])),
    lambda kinds: st.tuples(kinds, st.sampled_from(["[]", "[0]", "[2]"])).map("".join),
    max_leaves=4,
)


@given(KINDS)
def test_types_are_those_of_eth_abi(kind: str) -> None:
    try:
        registry.get_decoder(kind)
    except (ValueError, ParseError):
        with pytest.raises(ValueError, match="is not an ABI type"):
            type_decoder_of(Param("a", kind, indexed=False))
    else:
        type_decoder_of(Param("a", kind, indexed=False))


def test_nesting_is_bounded() -> None:
    type_decoder_of(param("uint8" + "[]" * MAX_DEPTH))
    with pytest.raises(ValueError, match="nested in each other"):
        type_decoder_of(param("uint8" + "[]" * (MAX_DEPTH + 1)))
