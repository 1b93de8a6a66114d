import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.native import BytesColumn
from headwater.sandbox.json_lines import find_long_integers_by_row, to_lines

EXACT = 2**53
DOCUMENTS = st.recursive(
    st.integers(-(10**40), 10**40) | st.integers(-EXACT - 2, EXACT + 2) | st.text(max_size=4) | st.floats() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=6,
)


class TestAdmit:
    def test_whole_batches_pass_as_they_are(self) -> None:
        values = [b"{}", '{"a":"é"}'.encode()]
        given_ = BytesColumn.of(values)
        admitted, errors, _ = to_lines(given_)
        assert admitted is given_
        assert not errors
        assert to_lines(BytesColumn.of([])) == (BytesColumn.of([]), {}, [])

    def test_newlines_between_tokens_only(self) -> None:
        line = b'{"a":  12345678901234567890,\r  "a":1.50}'
        admitted = to_lines(BytesColumn.of([b'{"a":\n 12345678901234567890,\r\n "a":1.50}']))
        assert admitted == (BytesColumn.of([line]), {}, [0, [7]])

    @pytest.mark.parametrize("value", [b'{\n"a":"\\ud800"}', b'{"a":"\\"",\n"b":1}', b"[\n" * 2000 + b"]" * 2000])
    def test_newlines_in_json_are_accepted(self, value: bytes) -> None:
        json.loads(value, parse_int=str) if value.startswith(b"{") else None
        admitted, errors, _ = to_lines(BytesColumn.of([value]))
        assert (admitted[0], errors) == (value.replace(b"\n", b" "), {})

    @pytest.mark.parametrize("value", [b'{"a":"\n"}', b'{"a":"\\\n"}', b'{"a":"\\"\n"}', b'{"a":"\n'])
    def test_a_newline_in_a_string_is_an_error(self, value: bytes) -> None:
        admitted, errors, _ = to_lines(BytesColumn.of([value]))
        assert (admitted[0], errors[0].error) == (b"", "InvalidJSON")

    def test_a_long_string_full_of_escapes_takes_no_memory_to_speak_of(self) -> None:
        value = b'{\n"a":"' + b"\\n" * 500_000 + b'"}'
        admitted, errors, _ = to_lines(BytesColumn.of([value]))
        assert not errors
        assert admitted[0] == value.replace(b"\n", b" ")

    @given(st.lists(st.one_of(st.none(), st.binary(max_size=12), st.sampled_from([b'{"a":\n1}', b"{}"])), max_size=5))
    def test_every_record_is_one_line_of_utf8_or_an_error(self, values: list[bytes | None]) -> None:
        admitted, errors, _ = to_lines(BytesColumn.of(values))
        lines = admitted.buffer.split(b"\n")
        assert lines.pop() == b""
        assert admitted == lines
        assert len(lines) == len(values)
        for row, line in enumerate(lines):
            line.decode()
            assert row in errors or line == (values[row] or b"").replace(b"\n", b" ")


def has_rounded(document: object) -> bool:
    """Return whether the record has an integer that a double cannot represent."""
    match document:
        case int():
            return abs(document) > EXACT
        case list():
            return any(map(has_rounded, document))
        case dict():
            return any(map(has_rounded, document.values()))
    return False


def places(lines: list[bytes]) -> dict[int, list[int]]:
    found: list[Any] = find_long_integers_by_row(BytesColumn.of(lines))
    return dict(zip(found[::2], found[1::2], strict=True))


def found(lines: list[bytes]) -> list[int]:
    return list(places(lines))


class TestLongIntegers:
    @given(st.lists(DOCUMENTS, max_size=6), st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\t:\r")]))
    def test_all_lines_with_long_integers_are_found(self, documents: list[object], separators: tuple[str, str]) -> None:
        lines = [json.dumps({"a": document}, separators=separators).encode() for document in documents]
        expected = {number for number, document in enumerate(documents) if has_rounded(document)}
        assert expected <= set(found(lines))

    @pytest.mark.parametrize(
        "line",
        [
            b"",
            b"{}",
            b'{"amount":"1234567890123456789"}',
            b'{"hash":"0x12345678901234567890ab"}',
            b'{"a":123456789012345,"b":-123456789012345}',
            b'{"a":0.12345678901234567}',
        ],
    )
    def test_others_are_left_out(self, line: bytes) -> None:
        assert found([line] * 3) == []

    @pytest.mark.parametrize("number", [b"9007199254740993", b"-9007199254740993", b"[9007199254740993]"])
    def test_the_lines_that_have_one(self, number: bytes) -> None:
        line = b'{"a":%b}' % number
        for padding in range(8):
            assert found([b"{%b}" % (b" " * padding), line, b'{"a":1}', line]) == [1, 3]

    @given(
        st.lists(st.lists(st.integers(-(10**40), 10**40), max_size=6), max_size=6), st.sampled_from(["", " ", "\t\r"])
    )
    def test_each_candidate_has_its_position(self, numbers: list[list[int]], blank: str) -> None:
        lines = [
            json.dumps({"é": some}, ensure_ascii=False, separators=("," + blank, ":")).encode() for some in numbers
        ]
        found_places = places(lines)
        for row, line in enumerate(lines):
            starts = [digits.start() for digits in re.finditer(rb"\d+", line)]
            long = [start for start in starts if re.match(rb"\d{16}", line[start:])]
            assert {*long} <= {*found_places.get(row, [])} <= {*starts}
