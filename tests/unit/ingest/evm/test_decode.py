"""Decoding against eth-abi, over the space of types and words."""

from typing import Any

import pytest
from eth_abi.abi import decode as eth_decode
from eth_abi.abi import encode
from eth_abi.exceptions import DecodingError
from eth_hash.auto import keccak
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.evm.abi import Abis, Event, read_fragment, write_fragment, written
from headwater.ingest.evm.blocks import Log
from headwater.ingest.evm.decode import Decoder, Layout, reader, text_of, unique_names
from headwater.ingest.evm.well_known import well_known

ADDRESS = "0x" + "ab" * 20
WORD_TYPES = st.one_of(
    st.integers(1, 32).map(lambda n: f"uint{8 * n}"),
    st.integers(1, 32).map(lambda n: f"int{8 * n}"),
    st.integers(1, 32).map(lambda n: f"bytes{n}"),
    st.sampled_from(["address", "bool"]),
)
WORDS = st.one_of(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**64).map(lambda n: n.to_bytes(32, "big")),
    st.integers(-(2**64), -1).map(lambda n: n.to_bytes(32, "big", signed=True)),
    st.integers(1, 32).flatmap(lambda n: st.binary(min_size=n, max_size=n)).map(lambda head: head.ljust(32, b"\0")),
    st.integers(1, 32).flatmap(lambda n: st.binary(min_size=n, max_size=n)).map(lambda tail: tail.rjust(32, b"\0")),
    st.sampled_from([1, 2**127, 2**160 - 1, 2**160, 2**255, 2**256 - 1]).map(lambda n: n.to_bytes(32, "big")),
)


def log(event: Event, data: bytes = b"", topics: list[str] | None = None) -> Log:
    topics = [event.topic0, *(["0x" + "0" * 64] * (event.topics - 1) if topics is None else topics)]
    return Log(ADDRESS, topics, f"0x{data.hex()}", "0x", "0x1", "0x", "0x0", "0x0")


def event_of(*inputs: dict[str, Any], name: str = "Told") -> Event:
    event = read_fragment({"type": "event", "name": name, "inputs": list(inputs)})
    assert event is not None
    return event


def decoded(event: Event, seen: Log) -> dict[str, Any] | None:
    found = Decoder(Abis([event], {})).decode(seen)
    return found and found.params


def by_eth_abi(kind: str, word: bytes) -> Any:
    """None when it refuses the word."""
    try:
        (value,) = eth_decode([kind], word)
    except DecodingError:
        return None
    return text_of(value, event_of({"name": "a", "type": kind}).params[0])


def by_reader(kind: str, word: bytes) -> Any:
    read = reader(kind)
    assert read is not None
    try:
        return read(word.hex())
    except ValueError:
        return None


@given(WORD_TYPES, WORDS)
def test_words_are_read_as_eth_abi_reads_them(kind: str, word: bytes) -> None:
    assert by_reader(kind, word) == by_eth_abi(kind, word)


VALUES = {
    "uint8": st.integers(0, 255), "int256": st.integers(-(2**255), 2**255 - 1), "bool": st.booleans(),
    "address": st.binary(min_size=20, max_size=20).map(lambda raw: f"0x{raw.hex()}"),
    "bytes4": st.binary(min_size=4, max_size=4), "bytes": st.binary(max_size=70), "string": st.text(max_size=40),
    "uint256[]": st.lists(st.integers(0, 2**256 - 1), max_size=4),
    "int64[2]": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2),
    "string[]": st.lists(st.text(max_size=9), max_size=3),
}  # fmt: skip


def as_text(value: Any) -> Any:
    """The form of values in records, written once more."""
    if isinstance(value, list):
        return [as_text(each) for each in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


@given(st.lists(st.sampled_from(sorted(VALUES)), max_size=5), st.data())
def test_what_was_encoded_comes_back(kinds: list[str], data: st.DataObject) -> None:
    values = [data.draw(VALUES[kind]) for kind in kinds]
    event = event_of(*({"name": f"p{place}", "type": kind} for place, kind in enumerate(kinds)))
    params = decoded(event, log(event, encode(kinds, values)))
    assert params == {f"p{place}": as_text(value) for place, value in enumerate(values)}


def test_tuples_are_objects_and_arrays_of_them_lists() -> None:
    place = {"name": "place", "type": "tuple[]", "components": [
        {"name": "town", "type": "string"}, {"name": "at", "type": "tuple", "components": [
            {"name": "x", "type": "int8"}, {"name": "", "type": "bool"}]}]}  # fmt: skip
    event = event_of({"name": "n", "type": "uint8"}, place)
    assert event.signature == "Told(uint8,(string,(int8,bool))[])"
    data = encode(["uint8", "(string,(int8,bool))[]"], [3, [("Ulm", (-1, True))]])
    assert decoded(event, log(event, data)) == {
        "n": "3",
        "place": [{"town": "Ulm", "at": {"x": "-1", "arg1": "true"}}],
    }


def test_indexed_values_longer_than_a_word_are_their_hash() -> None:
    event = event_of({"name": "a", "type": "uint256"}, {"name": "title", "type": "string", "indexed": True})
    hash_ = f"0x{keccak(b'salt').hex()}"
    params = decoded(event, log(event, encode(["uint256"], [1]), [hash_]))
    assert params is not None
    assert list(params.items()) == [("a", "1"), ("title", hash_)]


@pytest.mark.parametrize("data", [b"", b"\0" * 31, b"\xff" * 32])
def test_data_that_does_not_fit_is_not_decoded(data: bytes) -> None:
    event = written("Told(uint128 a)")
    assert decoded(event, log(event, data)) is None


@pytest.mark.parametrize("kind", ["uint256[0]", "string[0]", "bytes0[]", "uint0[]"])
def test_a_type_that_is_none_is_not_decoded(kind: str) -> None:
    event = event_of({"name": "a", "type": kind})
    assert decoded(event, log(event, b"\0" * 64)) is None


def test_data_beyond_the_parameters_is_passed_over() -> None:
    event = written("Told(uint128 a)")
    assert decoded(event, log(event, encode(["uint128", "uint8"], [7, 1]))) == {"a": "7"}


def test_a_log_without_topics_is_not_decoded() -> None:
    empty = log(written("Told()"))
    empty.topics = []
    assert Decoder(Abis(well_known(), {})).decode(empty) is None


def test_the_number_of_topics_chooses() -> None:
    decoder = Decoder(Abis(well_known(), {}))
    erc20, erc721 = well_known()[0], well_known()[2]
    assert erc20.topic0 == erc721.topic0
    amount = decoder.decode(log(erc20, encode(["uint256"], [5])))
    token = decoder.decode(log(erc721))
    assert amount is not None
    assert token is not None
    assert (list(amount.params), list(token.params)) == (["from", "to", "value"], ["from", "to", "tokenId"])


def test_the_contracts_own_abi_wins_and_the_next_one_is_tried() -> None:
    own, generic = written("Told(uint8 mine)"), written("Told(uint8 any)")
    decoder = Decoder(Abis([generic], {ADDRESS: [own]}))
    first = decoder.decode(log(own, encode(["uint8"], [1])))
    assert first is not None
    assert first.params == {"mine": "1"}
    elsewhere = log(own, encode(["uint8"], [1]))
    elsewhere.address = "0x" + "cd" * 20
    second = decoder.decode(elsewhere)
    assert second is not None
    assert second.params == {"any": "1"}


def test_a_later_abi_comes_before_an_earlier_one() -> None:
    early, late = written("Told(uint8 early)"), written("Told(uint8 late)")
    found = Decoder(Abis([early, late], {})).decode(log(late, encode(["uint8"], [1])))
    assert found is not None
    assert found.names == ["late"]


def test_names_are_unique() -> None:
    event = event_of({"name": "", "type": "bool"}, {"name": "a", "type": "bool"}, {"name": "a", "type": "bool"})
    assert unique_names(event.params) == ["arg0", "a", "arg2"]
    assert Layout(event).names == ["arg0", "a", "arg2"]


@pytest.mark.parametrize("event", well_known(), ids=lambda event: event.signature)
def test_fragments_are_written_and_read(event: Event) -> None:
    assert read_fragment(write_fragment(event)) == event


def test_short_names_of_types_are_made_canonical() -> None:
    event = event_of({"name": "a", "type": "uint[2][]"}, {"name": "b", "type": "int"})
    assert event.signature == "Told(uint256[2][],int256)"
