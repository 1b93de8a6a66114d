"""Members of records in C, against Python's own reading of JSON."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.native import Texts, read_members

MOST = 100
LONG = '"pad":"' + "x" * 70 + '"'


def read(*records: bytes | None, name: bytes = b"a", strings_only: bool = False) -> tuple[list[str], list[int]]:
    return read_members(Texts.of(records), name, MOST, strings_only=strings_only)


def is_sure(record: str) -> bool:
    """Whether a record is read, by both ways to find the ends of strings."""
    long = record.replace("{", "{" + LONG + ",", 1) if record != "{}" else record
    [short_is, long_is] = [not read(text.encode())[1] for text in (record, long)]
    assert short_is == long_is
    return short_is


VALID = r"""0 -0 10 1.5 1e5 1E+05 -1.5e-3 1234567890123456789012
"" "x" "\\\"\u00e9\/" true false null [] {} [[],{}]"""
INVALID = r"""01 1. .5 1e +1 - 1e+ tru nulll NaN 'x' " "\x" "\u12g4" "\ [ [1,] [,] ] {,} {"a"} {"a":} {"a":1,}
{1:2} [} {] 1} 1,"c" "x""y" [1]] {"a":1}}"""


@pytest.mark.parametrize("value", [*VALID.split(), '[1, "x" ,null]', '{"a":{"a":[]}, "b" : 1}', '"\x7f"', " \t\r\n1 "])
def test_json(value: str) -> None:
    assert is_sure('{"b":?}'.replace("?", value))
    assert is_sure('{"b":[?],"c":{"x":?}}'.replace("?", value))


@pytest.mark.parametrize("value", [*INVALID.split(), "", '"\t"', '"\n"', '"\0"', "[1 2]", "1 2", "\x0b1", "\xa01"])
def test_what_is_no_json(value: str) -> None:
    assert not is_sure('{"b":?}'.replace("?", value))
    assert not value or not is_sure('{"b":[?],"c":1}'.replace("?", value)) or json.loads(f"[{value}]")


@pytest.mark.parametrize("record", ["", " ", "[]", '"x"', "1", "null", "{", "{}{}", "{} x", '{"a"', '{"a', '{"a":"b'])
def test_what_is_no_object(record: str) -> None:
    assert read(record.encode())[1] == [0]
    assert read(None)[1] == [0]


def test_depth() -> None:
    for depth, sure in ((64, True), (65, False)):
        assert is_sure('{"b":?}'.replace("?", "[" * depth + "1" + "]" * depth)) == sure


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ('{"a":"0xAb"}', "0xab"),
        ('{"a":"x","a":"y"}', "y"),
        ('{"a":"x","a":null}', ""),
        ('{"b":{"a":"x"},"aa":"y"}', ""),
        (f'{{"a":"{"X" * MOST}"}}', "x" * MOST),
        (f'{{"a":"{"X" * (MOST + 1)}"}}', ""),
        ('{"a":1E5 }', "1e5"),
        ('{"a" : true}', "true"),
        ("{}", ""),
        (" { } ", ""),
    ],
)
def test_the_member(record: str, text: str) -> None:
    assert read(record.encode()) == ([text], [])


@pytest.mark.parametrize(
    "record", ['{"a":"é"}', r'{"a":"\n"}', '{"a":[]}', '{"a":{}}', r'{"\u0061":"x"}', '{"a":{},"a":"x"}']
)
def test_what_has_to_be_looked_into(record: str) -> None:
    assert read(b"{}", record.encode(), b'{"a":"x"}') == (["", "", "x"], [1])


def test_letters_beyond_ascii() -> None:
    wide = '{"a":"%s"}' % ("é" * (MOST - 1))
    assert len(wide.encode()) > MOST
    assert read(wide.encode()) == ([""], [0])
    records = ['{"a":"x","b":"é"}'.encode(), b'{"a":"x"}', b'{"a":"x","b":"\xff"}']
    assert read(*records) == (["x"] * 3, [])
    texts = Texts.of(records)
    assert read_members(texts, b"a", MOST, strings_only=False, ascii_only=True) == (["", "x", ""], [0, 2])


def test_strings_only() -> None:
    records = [b'{"a":1}', b'{"a":true}', b'{"a":null}', b'{"a":"X"}', b'{"b":1}']
    assert read(*records, strings_only=True) == (["", "", "", "x", ""], [0, 1])


def test_a_letter_that_no_string_has_is_found_wherever_it_is() -> None:
    for size in range(60, 140):
        record = b'{"a":"x","b":"' + b"y" * size + b'"}'
        assert read(record) == (["x"], [])
        for at in (14, 14 + size // 2, 13 + size):
            assert read(record[:at] + b"\t" + record[at + 1 :])[1] == [0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "A", "b", "é", "long " * 20]), VALUES)), st.booleans())
@example([{"a": "İ"}], False)
def test_what_is_read_is_there(records: list[dict[str, Any]], ascii_only: bool) -> None:
    texts, doubtful = read(*(json.dumps(record, ensure_ascii=ascii_only).encode() for record in records))
    for row, record in enumerate(records):
        value = record.get("a")
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
        if row in doubtful:
            assert (
                isinstance(value, list | dict)
                or not text.isascii()
                or any(json.dumps(key)[1:-1] != key for key in record)
                or json.dumps(text)[1:-1] != text
            )
        else:
            assert texts[row] == (text.lower() if len(text) <= MOST else "")


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_damage_is_seen(draw: random.Random, times: int) -> None:
    record = bytearray(
        json.dumps({"a": "x", "n": [1.5, -2, {"k": None}], "text": "y" * 60, "s": r"\n", "t": True}).encode()
    )
    for _ in range(times):
        at = draw.randrange(len(record))
        record[at : at + draw.randrange(2)] = draw.choice(b'"\\{}[]:,0-.eE \n\tnx').to_bytes()
    texts, doubtful = read(bytes(record))
    if not doubtful:
        found = json.loads(record).get("a")
        assert texts == [found.lower() if isinstance(found, str) else json.dumps(found) if found is not None else ""]
