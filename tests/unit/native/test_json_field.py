"""The C reader of one JSON field, against Python's JSON parser."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.native import BytesColumn, read_json_field

MAX_CHARS = 100
LONG = '"pad":"' + "x" * 70 + '"'


def read(*records: bytes | None, name: bytes = b"a", strings_only: bool = False) -> tuple[list[str], list[int]]:
    return read_json_field(BytesColumn.of(records), name, MAX_CHARS, strings_only=strings_only)


def is_read(record: str) -> bool:
    """Return whether a record is read, with and without indexed quotes."""
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
    assert is_read('{"b":?}'.replace("?", value))
    assert is_read('{"b":[?],"c":{"x":?}}'.replace("?", value))


@pytest.mark.parametrize("value", [*INVALID.split(), "", '"\t"', '"\n"', '"\0"', "[1 2]", "1 2", "\x0b1", "\xa01"])
def test_invalid_json(value: str) -> None:
    assert not is_read('{"b":?}'.replace("?", value))
    assert not value or not is_read('{"b":[?],"c":1}'.replace("?", value)) or json.loads(f"[{value}]")


@pytest.mark.parametrize("record", ["", " ", "[]", '"x"', "1", "null", "{", "{}{}", "{} x", '{"a"', '{"a', '{"a":"b'])
def test_a_record_that_is_not_an_object(record: str) -> None:
    assert read(record.encode())[1] == [0]
    assert read(None)[1] == [0]


def test_depth() -> None:
    for depth, expected in ((64, True), (65, False)):
        assert is_read('{"b":?}'.replace("?", "[" * depth + "1" + "]" * depth)) == expected


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ('{"a":"0xAb"}', "0xab"),
        ('{"a":"x","a":"y"}', "y"),
        ('{"a":"x","a":null}', ""),
        ('{"b":{"a":"x"},"aa":"y"}', ""),
        (f'{{"a":"{"X" * MAX_CHARS}"}}', "x" * MAX_CHARS),
        (f'{{"a":"{"X" * (MAX_CHARS + 1)}"}}', ""),
        ('{"a":1E5 }', "1e5"),
        ('{"a" : true}', "true"),
        ("{}", ""),
        (" { } ", ""),
    ],
)
def test_the_value_of_the_field(record: str, text: str) -> None:
    assert read(record.encode()) == ([text], [])


@pytest.mark.parametrize(
    "record", ['{"a":"é"}', r'{"a":"\n"}', '{"a":[]}', '{"a":{}}', r'{"\u0061":"x"}', '{"a":{},"a":"x"}']
)
def test_a_record_that_a_full_parser_must_read(record: str) -> None:
    assert read(b"{}", record.encode(), b'{"a":"x"}') == (["", "", "x"], [1])


def test_bytes_beyond_ascii() -> None:
    wide = '{"a":"%s"}' % ("é" * (MAX_CHARS - 1))
    assert len(wide.encode()) > MAX_CHARS
    assert read(wide.encode()) == ([""], [0])
    records = ['{"a":"x","b":"é"}'.encode(), b'{"a":"x"}', b'{"a":"x","b":"\xff"}']
    assert read(*records) == (["x"] * 3, [])
    values = BytesColumn.of(records)
    assert read_json_field(values, b"a", MAX_CHARS, strings_only=False, skip_non_ascii=True) == (["", "x", ""], [0, 2])


def test_strings_only() -> None:
    records = [b'{"a":1}', b'{"a":true}', b'{"a":null}', b'{"a":"X"}', b'{"b":1}']
    assert read(*records, strings_only=True) == (["", "", "", "x", ""], [0, 1])


def test_a_control_character_in_a_string_is_found_at_any_offset() -> None:
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
def test_a_value_that_is_read_is_in_the_record(records: list[dict[str, Any]], ascii_only: bool) -> None:
    values, unread = read(*(json.dumps(record, ensure_ascii=ascii_only).encode() for record in records))
    for row, record in enumerate(records):
        value = record.get("a")
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
        if row in unread:
            assert (
                isinstance(value, list | dict)
                or not text.isascii()
                or any(json.dumps(key)[1:-1] != key for key in record)
                or json.dumps(text)[1:-1] != text
            )
        else:
            assert values[row] == (text.lower() if len(text) <= MAX_CHARS else "")


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_damaged_record_is_not_read_wrongly(draw: random.Random, times: int) -> None:
    record = bytearray(
        json.dumps({"a": "x", "n": [1.5, -2, {"k": None}], "text": "y" * 60, "s": r"\n", "t": True}).encode()
    )
    for _ in range(times):
        at = draw.randrange(len(record))
        record[at : at + draw.randrange(2)] = draw.choice(b'"\\{}[]:,0-.eE \n\tnx').to_bytes()
    values, unread = read(bytes(record))
    if not unread:
        found = json.loads(record).get("a")
        assert values == [found.lower() if isinstance(found, str) else json.dumps(found) if found is not None else ""]
