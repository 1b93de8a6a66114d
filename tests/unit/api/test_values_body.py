"""Bodies with values, cut into chunks at any place."""

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.api.values_body import MAX_BYTES_WITHOUT_VALUE, ValuesBody, _FastStrings, read_values
from headwater.errors import InvalidInput, MalformedRequest

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def parse(body: bytes, cuts: list[int], *, has_name: bool = False) -> ValuesBody:
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return read_values((body[start:end] for start, end in itertools.pairwise(edges)), has_name=has_name)


class TestParse:
    @given(
        values=st.lists(texts, min_size=1),
        name=texts.filter(lambda t: t and "\0" not in t),
        ascii_only=st.booleans(),
        name_first=st.booleans(),
        cuts=st.lists(st.integers(0, 10_000), max_size=8),
    )
    def test_the_values_are_those_of_the_body(
        self, values: list[str], name: str, ascii_only: bool, name_first: bool, cuts: list[int]
    ) -> None:
        members = [("name", name), ("values", values)]
        body = json.dumps(dict(members if name_first else members[::-1]), ensure_ascii=ascii_only).encode()
        assert parse(body, cuts, has_name=True) == ValuesBody(values, name)

    @given(
        before=texts,
        lone=st.sampled_from([r"\ud800", r"\uDFFF", r"\udbff\ud800", r"\udc00\ud800", r"\ud83d\n", r"\\\ud800"]),
        after=texts.map(lambda t: t.strip()),
        cuts=st.lists(st.integers(0, 200), max_size=8),
    )
    def test_lone_surrogates_are_rejected(self, before: str, lone: str, after: str, cuts: list[int]) -> None:
        body = f'{{"values":[{json.dumps(before)[:-1]}{lone}{json.dumps(after)[1:]}]}}'.encode()
        with pytest.raises(MalformedRequest):
            parse(body, cuts)

    @given(cuts=st.lists(st.integers(0, 200), max_size=8))
    def test_keeps_backslashes_before_a_u(self, cuts: list[int]) -> None:
        values = [r"\ud800", r"\\ud800", "\U0001f600", "?"]
        assert parse(json.dumps({"values": values}).encode(), cuts).values == values

    @given(cut=st.integers(0, 30), cuts=st.lists(st.integers(0, 100), max_size=4))
    def test_truncated_bodies_are_rejected(self, cut: int, cuts: list[int]) -> None:
        body = b'{"values": ["a", "\\u00e9", "bcdefghij"]}'
        with pytest.raises(MalformedRequest):
            parse(body[: min(cut, len(body) - 1)], cuts)


def endless(start: bytes, filling: bytes, at_most: int) -> Iterator[bytes]:
    """A body without end."""
    yield start
    chunk = filling * 1_000
    for _ in range(at_most // len(chunk)):
        yield chunk
    pytest.fail("read on")


def outcome(body: bytes, cuts: list[int]) -> object:
    """Return the values of a body, or how it is rejected."""
    try:
        return parse(body, cuts)
    except MalformedRequest as error:
        return error.detail
    except InvalidInput as error:
        return [fault.pointer for fault in error.faults]


class TestRuns:
    """Compares _FastStrings with ijson.

    With an escape in the member's name, ijson parses everything.
    """

    awkward = st.text(st.sampled_from('",\\ []{}xé\n\u2028'), max_size=6)

    @given(
        values=st.lists(awkward, min_size=1, max_size=12),
        separators=st.sampled_from([(",", ":"), (", ", ": "), ("\n, ", ":\t")]),
        ascii_only=st.booleans(),
        damage=st.none()
        | st.tuples(st.integers(0, 200), st.sampled_from([b"", b'"', b",", b"\\", b"5", b"]", b"\xff"])),
        cuts=st.lists(st.integers(0, 200), max_size=6),
    )
    def test_chunk_boundaries_make_no_difference(
        self,
        values: list[str],
        separators: tuple[str, str],
        ascii_only: bool,
        damage: tuple[int, bytes] | None,
        cuts: list[int],
    ) -> None:
        body = json.dumps({"values": values}, ensure_ascii=ascii_only, separators=separators).encode()
        if damage:
            at = len('{"values":[') + damage[0] % len(body)
            body = body[:at] + damage[1] + body[at + 1 :]
        plain = body.replace(b'"values"', b'"\\u0076alues"')
        assert outcome(body, cuts) == outcome(plain, [])

    def test_take_nearly_all(self) -> None:
        values = [f"0x{number:040x}" for number in range(5000)]
        fast_strings, found = _FastStrings(), list[str]()
        left = fast_strings.feed(json.dumps({"values": values}).encode(), found) + fast_strings.flush()
        assert found == values[:-1]
        assert left == b'{"values": [' + json.dumps(values[-1]).encode() + b"]}"

    def test_end_at_a_bad_value(self) -> None:
        body = json.dumps({"values": [*["a"] * 3000, 5, *["b"] * 3000]}).encode()
        assert outcome(body, [500, 5000]) == ["/values/3000"]


class TestMemory:
    @pytest.mark.parametrize("filling", [b"x", b" ", b"\\u00e9"])
    def test_an_endless_value_is_rejected(self, filling: bytes) -> None:
        with pytest.raises(InvalidInput) as refused:
            read_values(endless(b'{"values": ["a", "', filling, 2 * MAX_BYTES_WITHOUT_VALUE))
        assert refused.value.faults[0].pointer == "/values/1"

    def test_a_long_value_is_rejected_immediately(self) -> None:
        body = json.dumps({"values": [5, "x" * 1025]}).encode().replace(b"5,", b'"a" ,')
        with pytest.raises(InvalidInput) as refused:
            read_values(endless(body[:-2], b" ", 2 * MAX_BYTES_WITHOUT_VALUE))
        assert refused.value.faults[0].pointer == "/values/1"

    def test_a_padded_value_is_taken(self) -> None:
        padded = " " * 5000 + "x" * 1024 + "\n" * 5000
        assert parse(json.dumps({"values": [padded]}).encode(), []).values == [padded]


class TestMembers:
    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ('{"values": ["a"], "values": ["b"]}', "/values"),
            ('{"a/b": 1}', "/a~1b"),
            ('{"values": ["a"], "name": "x"}', "/name"),
            ("[]", ""),
            ("5", ""),
            ("null", ""),
            ("{}", "/values"),
        ],
    )
    def test_refused(self, body: str, pointer: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            parse(body.encode(), [])
        assert [fault.pointer for fault in refused.value.faults] == [pointer]
