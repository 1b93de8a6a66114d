"""Bodies of values, cut into chunks anywhere."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.api.values_body import MAX_SILENT_BYTES, ValuesBody, ValuesParser
from headwater.errors import InvalidInput, MalformedRequest

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def parse(body: bytes, cuts: list[int], *, named: bool = False) -> ValuesBody:
    parser = ValuesParser(named=named)
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for start, end in itertools.pairwise(edges):
        parser.feed(body[start:end])
    return parser.close()


class TestParse:
    @given(
        values=st.lists(texts, min_size=1),
        name=texts.filter(lambda t: t and "\0" not in t),
        ascii_only=st.booleans(),
        name_first=st.booleans(),
        cuts=st.lists(st.integers(0, 10_000), max_size=8),
    )
    def test_gives_what_was_sent(
        self, values: list[str], name: str, ascii_only: bool, name_first: bool, cuts: list[int]
    ) -> None:
        members = [("name", name), ("values", values)]
        body = json.dumps(dict(members if name_first else members[::-1]), ensure_ascii=ascii_only).encode()
        assert parse(body, cuts, named=True) == ValuesBody(values, name)

    @given(
        before=texts,
        lone=st.sampled_from([r"\ud800", r"\uDFFF", r"\udbff\ud800", r"\udc00\ud800", r"\ud83d\n", r"\\\ud800"]),
        after=texts.map(lambda t: t.strip()),
        cuts=st.lists(st.integers(0, 200), max_size=8),
    )
    def test_refuses_lone_surrogates(self, before: str, lone: str, after: str, cuts: list[int]) -> None:
        body = f'{{"values":[{json.dumps(before)[:-1]}{lone}{json.dumps(after)[1:]}]}}'.encode()
        with pytest.raises(MalformedRequest):
            parse(body, cuts)

    @given(cuts=st.lists(st.integers(0, 200), max_size=8))
    def test_keeps_backslashes_before_a_u(self, cuts: list[int]) -> None:
        values = [r"\ud800", r"\\ud800", "\U0001f600", "?"]
        assert parse(json.dumps({"values": values}).encode(), cuts).values == values

    @given(cut=st.integers(0, 30), cuts=st.lists(st.integers(0, 100), max_size=4))
    def test_refuses_what_broke_off(self, cut: int, cuts: list[int]) -> None:
        body = b'{"values": ["a", "\\u00e9", "bcdefghij"]}'
        with pytest.raises(MalformedRequest):
            parse(body[: min(cut, len(body) - 1)], cuts)


def feed(parser: ValuesParser, filling: bytes, at_least: int) -> None:
    chunk = filling * 1_000
    for _ in range(at_least // len(chunk) + 1):
        parser.feed(chunk)


class TestMemory:
    @pytest.mark.parametrize("filling", [b"x", b" ", b"\\u00e9"])
    def test_a_value_without_end_is_refused(self, filling: bytes) -> None:
        parser = ValuesParser(named=False)
        parser.feed(b'{"values": ["a", "')
        with pytest.raises(InvalidInput) as refused:
            feed(parser, filling, 2 * MAX_SILENT_BYTES)
        assert refused.value.problems[0].pointer == "/values/1"

    def test_a_long_value_is_refused_at_once(self) -> None:
        parser = ValuesParser(named=False)
        with pytest.raises(InvalidInput) as refused:
            parser.feed(json.dumps({"values": ["a", "x" * 1025]}).encode()[:-2])
        assert refused.value.problems[0].pointer == "/values/1"

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
        assert [problem.pointer for problem in refused.value.problems] == [pointer]
