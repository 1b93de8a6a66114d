"""Logs are decoded by event ABIs.

The ABI is chosen, topics and data are decoded, and parameters are named.
"""

from typing import Any

import pytest
from eth_abi.abi import encode
from eth_hash.auto import keccak
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.evm.abi import Abis, Event, event_of_fragment, event_of_text, fragment_of_event, unique_names
from headwater.ingest.evm.blocks import Log
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.well_known import well_known

ADDRESS = "0x" + "ab" * 20


def log(event: Event, data: bytes = b"", topics: list[str] | None = None) -> Log:
    topics = [event.topic0, *(["0x" + "0" * 64] * (event.topic_count - 1) if topics is None else topics)]
    return Log(ADDRESS, topics, f"0x{data.hex()}", "0x", "0x1", "0x", "0x0", "0x0")


def event_of(*inputs: dict[str, Any], name: str = "Paid") -> Event:
    event = event_of_fragment({"type": "event", "name": name, "inputs": list(inputs)})
    assert event is not None
    return event


def decoded(event: Event, seen: Log) -> dict[str, Any] | None:
    found = Decoder(Abis([event], {})).decode(seen)
    return found and found.params


def test_indexed_values_longer_than_a_word_are_their_hash() -> None:
    event = event_of({"name": "a", "type": "uint256"}, {"name": "title", "type": "string", "indexed": True})
    hash_ = f"0x{keccak(b'salt').hex()}"
    params = decoded(event, log(event, encode(["uint256"], [1]), [hash_]))
    assert params is not None
    assert list(params.items()) == [("a", "1"), ("title", hash_)]


@pytest.mark.parametrize("data", [b"", b"\0" * 31])
def test_mismatching_data_is_not_decoded(data: bytes) -> None:
    event = event_of_text("Paid(uint128 a)")
    assert decoded(event, log(event, data)) is None


@pytest.mark.parametrize("kind", ["uint256[0]", "string[0]", "bytes0[]", "uint0[]"])
def test_an_invalid_type_is_not_decoded(kind: str) -> None:
    event = event_of({"name": "a", "type": kind})
    assert decoded(event, log(event, b"\0" * 64)) is None


def test_data_beyond_the_parameters_is_passed_over() -> None:
    event = event_of_text("Paid(uint128 a)")
    assert decoded(event, log(event, encode(["uint128", "uint8"], [7, 1]))) == {"a": "7"}


def test_a_log_without_topics_is_not_decoded() -> None:
    empty = log(event_of_text("Paid()"))
    empty.topics = []
    assert Decoder(Abis(well_known(), {})).decode(empty) is None


def test_the_number_of_topics_selects_the_abi() -> None:
    decoder = Decoder(Abis(well_known(), {}))
    erc20, erc721 = well_known()[0], well_known()[2]
    assert erc20.topic0 == erc721.topic0
    amount = decoder.decode(log(erc20, encode(["uint256"], [5])))
    token = decoder.decode(log(erc721))
    assert amount is not None
    assert token is not None
    assert (list(amount.params), list(token.params)) == (["from", "to", "value"], ["from", "to", "tokenId"])


def test_the_contracts_own_abi_wins_and_the_next_one_is_tried() -> None:
    own, generic = event_of_text("Paid(uint8 mine)"), event_of_text("Paid(uint8 any)")
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
    early, late = event_of_text("Paid(uint8 early)"), event_of_text("Paid(uint8 late)")
    found = Decoder(Abis([early, late], {})).decode(log(late, encode(["uint8"], [1])))
    assert found is not None
    assert found.names == ["late"]


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


def inputs(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": "uint8"} for name in names]


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        (["", "a", "a"], ["arg0", "a", "arg2"]),
        (["arg1", ""], ["arg1", "arg1_1"]),
        (["", "arg0"], ["arg0_1", "arg0"]),
        (["arg2", "arg2_1", "", ""], ["arg2", "arg2_1", "arg2_2", "arg3"]),
    ],
)
def test_names_are_unique(given_names: list[str], expected: list[str]) -> None:
    event = event_of(*inputs(*given_names))
    found = Decoder(Abis([event], {})).decode(log(event, words(*range(len(expected)))))
    assert found is not None
    assert found.names == expected
    assert found.params == {name: str(place) for place, name in enumerate(expected)}


def test_names_inside_a_tuple_are_unique() -> None:
    event = event_of({"name": "t", "type": "tuple", "components": inputs("arg1", "")})
    assert decoded(event, log(event, words(1, 2))) == {"t": {"arg1": "1", "arg1_1": "2"}}


@given(st.lists(st.sampled_from(["", "a", "arg0", "arg1", "arg2", "arg1_1", "arg2_1"]), max_size=6))
def test_names_are_unique_for_any_input(names: list[str]) -> None:
    unique = unique_names(event_of(*inputs(*names)).params)
    assert len(set(unique)) == len(names)
    assert [name for place, name in enumerate(names) if name and name not in names[:place]] == [
        name for name, own in zip(unique, names, strict=True) if name == own
    ]


def test_only_the_low_bits_of_a_dirty_topic_are_used() -> None:
    event = event_of_text("Transfer(address indexed from, address indexed to, uint256 value)")
    dirty = "0x0000000000000000000000010000000000000000000000000000000000000006"
    params = decoded(event, log(event, words(5), ["0x" + "0" * 64, dirty]))
    assert params == {"from": "0x" + "0" * 40, "to": "0x" + "0" * 39 + "6", "value": "5"}


def test_the_abi_without_dirty_words_is_preferred() -> None:
    first, second = (
        event_of_text("Paid(address indexed who, uint256 much)"),
        event_of_text("Paid(address who, uint256 indexed much)"),
    )
    assert (first.topic0, first.topic_count) == (second.topic0, second.topic_count)
    decoder = Decoder(Abis([second, first], {}))
    amount, address = words(2**200 + 7), words(int(ADDRESS, 16))
    for topic, data, names in ((address, amount, ["who", "much"]), (amount, address, ["much", "who"])):
        found = decoder.decode(log(first, data, [f"0x{topic.hex()}"]))
        assert found is not None
        assert found.params == {"who": ADDRESS, "much": str(2**200 + 7)}, names


def test_data_that_expands_too_much_is_not_decoded() -> None:
    event = event_of({"name": "calldatas", "type": "bytes[]"})
    data = words(32, 6_000, *[32 * 6_000] * 6_000, 192_000) + b"\xab" * 192_000
    assert decoded(event, log(event, data)) is None


@pytest.mark.parametrize("event", well_known(), ids=lambda event: event.signature)
def test_fragments_are_written_and_read(event: Event) -> None:
    assert event_of_fragment(fragment_of_event(event)) == event


def test_short_names_of_types_are_made_canonical() -> None:
    event = event_of({"name": "a", "type": "uint[2][]"}, {"name": "b", "type": "int"})
    assert event.signature == "Paid(uint256[2][],int256)"
