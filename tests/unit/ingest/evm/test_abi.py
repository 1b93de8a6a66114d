"""Events of human-readable ABIs."""

import pytest

from headwater.errors import SetupError
from headwater.ingest.evm.abi import event_of_fragment, event_of_text, fragment_of_event, fragment_of_text


@pytest.mark.parametrize(
    ("text", "signature", "names", "indexed"),
    [
        ("Paid()", "Paid()", [], []),
        ("event Paid(address indexed who, uint much);", "Paid(address,uint256)", ["who", "much"], [True, False]),
        ("  event  Paid ( uint8[2][] , string )  ", "Paid(uint8[2][],string)", ["", ""], [False, False]),
        ("Paid(address indexed, bool)", "Paid(address,bool)", ["", ""], [True, False]),
        (
            "event Paid(tuple(uint a, (bool, int8)[] b)[2] indexed order, (bytes c) d)",
            "Paid((uint256,(bool,int8)[])[2],(bytes))",
            ["order", "d"],
            [True, False],
        ),
    ],
)
def test_an_event_is_read(text: str, signature: str, names: list[str], indexed: list[bool]) -> None:
    event = event_of_text(text)
    assert event.signature == signature
    assert [param.name for param in event.params] == names
    assert [param.indexed for param in event.params] == indexed
    assert event_of_fragment(fragment_of_event(event)) == event


def test_members_of_a_tuple_keep_their_names() -> None:
    (param,) = event_of_text("Paid((uint8 a, (bool b)[] c) t)").params
    assert [component.name for component in param.components] == ["a", "c"]
    assert [component.name for component in param.components[1].components] == ["b"]


def test_an_anonymous_event_has_no_topic() -> None:
    assert event_of_fragment(fragment_of_text("event Paid(uint8 a) anonymous")) is None
    with pytest.raises(SetupError, match="anonymous"):
        event_of_text("event Paid(uint8 a) anonymous")


@pytest.mark.parametrize("text", ["", "event", "function Paid(uint8 a)", "Paid(uint8 a", "Paid uint8"])
def test_other_entries_are_rejected(text: str) -> None:
    with pytest.raises(SetupError, match="is not an event"):
        event_of_text(text)


@pytest.mark.parametrize(
    "text", ["Paid(uint8 a b)", "Paid(,)", "Paid(uint8 a,)", "Paid((uint8 a))) b)", "Paid(uint8 a)(b)"]
)
def test_invalid_parameters_are_rejected(text: str) -> None:
    with pytest.raises(SetupError, match=r"is (not an event|not a parameter|not an ABI type)"):
        event_of_text(text)
