"""Expressions and records that are made to be expensive: the work for each is bounded.

Without a bound, the work takes minutes or more, and the test exceeds its time limit.
"""

import json
from collections.abc import Callable

import pytest

from headwater.errors import InvalidExpression
from headwater.model.transforms.redis_set_filter import MAX_EXPRESSION_CHARS
from headwater.transforms.bloblang import json_values
from headwater.transforms.bloblang.parser import MAX_NESTING
from headwater.transforms.expression import MAX_LOOKUP_VALUES, Expression, InvalidRecord, parse
from tests.support.expressions import select

pytestmark = pytest.mark.timeout(60)

MEGABYTE = 1_000_000


def filled(head: str, unit: str, tail: str = "") -> str:
    """Return the longest allowed expression that repeats a unit."""
    return head + unit * ((MAX_EXPRESSION_CHARS - len(head) - len(tail)) // len(unit)) + tail


def nested(opening: str, inner: str, closing: str) -> str:
    return opening * MAX_NESTING + inner + closing * MAX_NESTING


EXPRESSIONS = [
    filled("root = this", ".a"),
    filled("root = this.a", "[0]"),
    filled("root = this.a", ".trim()"),
    filled("root = this.a", ".or(\"\")"),
    filled("root = this.a", ".catch(\"\")"),
    filled("root = this.a", ".(a)"),
    filled("root = this.a", ".map_each(a)"),
    filled("root = this.a", '."*"'),
    filled("root = this.a", "|this.a"),
    filled("root = [", "this.a,", "]"),
    filled("root = [", '"a",', "]"),
    filled("root = [", "deleted(),", "]"),
    filled("root = this.a ", "# \n"),
    filled("root = this.a.get(\"", "a.", "\")"),
    "root = " + nested("[", "this.a", "]"),
    "root = " + nested("(", "this.a", ")"),
    "root = this" + nested(".a.map_each(this", "", ")"),
    "root = this" + nested(".a.or(this", ".a", ")"),
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS, ids=lambda text: text[:30])
@pytest.mark.parametrize("record", [b"{}", b'{"a": "x"}', b'{"a": {"a": ["x"]}}', b'{"a": [[["x"]]]}'])
def test_long_expressions_are_parsed_and_run(text: str, record: bytes) -> None:
    parse(text).select(record)


@pytest.mark.parametrize(
    "unit", ["(", "[", "this.(", "this.a.or(", '"', '"""', "#", ".", "|", "-> ", "a -> ", "\\", "this.a "]
)
@pytest.mark.parametrize("head", ["", "root = ", "root = this.a.map_each("])
def test_invalid_expressions_are_rejected(unit: str, head: str) -> None:
    with pytest.raises(InvalidExpression):
        parse(filled(head, unit))


def array(size: int) -> bytes:
    return b'{"a": [' + b"1," * (size // 2) + b"1]}"


def json_text(size: int) -> bytes:
    return b'{"a": "[' + b"1," * (size // 2) + b'1]"}'


def deep(_: int) -> bytes:
    return b'{"a": ' + b"[" * 500 + b'"x"' + b"]" * 500 + b"}"


def wide(_: int) -> bytes:
    return b'{"a": [' + b'{"a": [1, 2, 3]},' * 999 + b'{"a": [1]}]}'


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("record", [array, json_text, deep, wide])
@pytest.mark.parametrize(
    "text",
    [
        "root = this.a",
        'root = this.a.split("")',
        'root = this.a.split(",")',
        "root = this.a.parse_json()",
        "root = this.a.string()",
        "root = this.a.flatten().flatten()",
        'root = this.a."*"."*"."*"',
        "root = this.a.map_each(this.a)",
        "root = this.a.map_each(p -> this.a.map_each(q -> this.a.map_each(r -> [p, q, r])))",
        filled("root = [", "this.a,", "]"),
        filled("root = [", 'this.a.split(""),', "]"),
        filled("root = [", "this.a.parse_json(),", "]"),
        filled("root = [", "this.a.string(),", "]"),
        filled("root = this.a.map_each([", "this.a,", "])"),
        filled("root = this.a.split(\"\").map_each([", "this,", "])"),
        filled("root = this", ".values().map_each(this).flatten()"),
        filled('root = this.a.split("").map_each([', "this.slice(0),", "])"),
        filled('root = this.a.split("").map_each([', "this,", "].flatten())"),
        filled('root = this.a.split("").map_each([', "this,", "].string())"),
        filled("root = this.a.string().([", "this.uppercase(),", "])"),
    ],
    ids=lambda text: text[:60],
)  # fmt: skip
def test_the_work_for_a_record_is_bounded(
    text: str, record: Callable[[int], bytes], share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Divide the budget and the size of the record by `share`, and the work is divided, too."""
    monkeypatch.setattr(json_values, "WORK_BUDGET_BYTES", json_values.WORK_BUDGET_BYTES // share)
    large = record(MEGABYTE // share)

    def selected(expression: Expression) -> list[str]:
        try:
            return expression.select(large)
        except InvalidRecord:  # nested too deeply
            return []

    expression = parse(text)
    assert len(selected(expression)) <= MAX_LOOKUP_VALUES
    assert select("root = this.a.map_each(this).(this.0)", '{"a": ["X"]}') == ["x"]


def test_large_records_pass() -> None:
    texts = [f"0x{number:08x}" for number in range(60_000)]
    record = json.dumps({"a": texts, "b": ",".join(texts), "c": "last"})
    assert select("root = this.a", record) == texts
    assert select('root = this.b.split(",")', record) == texts
    assert select("root = this.a.map_each(a -> a.uppercase())", record) == texts
    assert select("root = [this.a.0, this.a.1, this.a[-1], this.c]", record) == [texts[0], texts[1], texts[-1], "last"]


@pytest.mark.parametrize("count", [300, 1300, 5000])
@pytest.mark.parametrize(
    "text", ["root = this.a", 'root = this.a."*"', "root = [this.a, this.a.0]", "root = this.a | this.b"]
)
def test_long_arrays_are_read_after_any_other_record(count: int, text: str) -> None:
    json_values.reset_budget(b"")
    assert not json_values.consume_budget(json_values.WORK_BUDGET_BYTES + 1)
    assert {*select(text, json.dumps({"a": ["x"] * count}))} == {"x"}


@pytest.mark.parametrize(
    "record",
    [
        "[" * MEGABYTE + "]" * MEGABYTE,
        json.dumps({"a": "\ud800"})[:-1] + ', "b": ' + "[" * MEGABYTE + "]" * MEGABYTE + "}",
    ],
)
def test_a_deeply_nested_record_that_the_first_decoder_rejects_is_invalid(record: str) -> None:
    with pytest.raises(InvalidRecord, match="nested too deeply"):
        select("root = this.a", record)


def test_deeply_nested_json_is_rejected() -> None:
    record = json.dumps({"a": "[" * MEGABYTE + "]" * MEGABYTE, "b": "x"})
    assert select("root = this.a.parse_json() | this.b", record) == ["x"]
