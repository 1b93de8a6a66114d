"""Filter expressions: grammar, values and every kind of record, by examples."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ExpressionRefused
from headwater.transforms.expression import parse
from headwater.transforms.grammar import MAX_NESTING, Array, Chain, Coalesce, Field, Node
from tests.support.expressions import refusal, select


def refused_column(text: str) -> int:
    """The column of the fault, 1 when there is none."""
    try:
        parse(text)
    except ExpressionRefused as refused:
        return refused.column
    return 1


class TestGrammar:
    @pytest.mark.parametrize(
        ("text", "node"),
        [
            ("root = this.a", Field("a")),
            ("root=this.a", Field("a")),
            (" \n root  =\n\tthis.a \n", Field("a")),
            ("this.a", Field("a")),
            ("root = this.root", Field("root")),
            ("root = this.this", Field("this")),
            ("root = this.a.b.0", Chain(Field("a"), ("b", "0"))),
            ("root = this.\n a", Field("a")),
            ('root = this."odd name"', Field("odd name")),
            (r'root = this."a\"\u0042\n.c"."☃"', Chain(Field('a"B\n.c'), ("☃",))),
            ('root = this.""', Field("")),
            ("root = this.lowercase", Field("lowercase")),
            ("root = this.a.lowercase()", Chain(Field("a"), (None,))),
            ("root = this.a.lowercase( ).b", Chain(Field("a"), (None, "b"))),
            ("root = this.a|this.b", Coalesce((Field("a"), Field("b")))),
            ("root = this.a |\n this.b | this.c", Coalesce((Field("a"), Field("b"), Field("c")))),
            ("root = [this.a, this.b]", Array((Field("a"), Field("b")))),
            ("root = [\n this.a | this.b,\n [] ]", Array((Coalesce((Field("a"), Field("b"))), Array(())))),
            ("root = [this.a].0", Chain(Array((Field("a"),)), ("0",))),
        ],
    )
    def test_accepted(self, text: str, node: Node) -> None:
        assert parse(text).node == node

    @pytest.mark.parametrize(
        ("text", "column", "words"),
        [
            ("", 1, "root = this.<field>"),
            ("root", 5, "Expected `=`"),
            ("root.a = this.a", 5, "as a whole"),
            ("root = ", 8, "root = this.<field>"),
            ("root == this.a", 7, "root = this.<field>"),
            ("token_address", 1, "this.token_address"),
            ("to = this.a", 1, "root = "),
            ("root = root.a", 8, "Expected `this`"),
            ("root = this", 12, "whole record"),
            ("root = this.", 13, "field name"),
            ("root = this..a", 13, "field name"),
            ("root = this .a", 12, "whole record"),
            ("root = this.a.", 15, "field name"),
            ("root = this.a .b", 15, "found `.`"),
            ("root = this.odd-name", 16, 'this."odd name"'),
            ("root = this.ü", 13, "field name"),
            ("root = this.lowercase()", 13, "before the method"),
            ("root = this.a.uppercase()", 15, "uppercase()"),
            ("root = this.a.lowercase(1)", 25, "no arguments"),
            ("root = this.a.lowercase(", 25, "no arguments"),
            ("root = this.a |", 16, "root = this.<field>"),
            ("root = this.a || this.b", 16, "single `|`"),
            ("root = this.a\n| this.b", 15, "found `|`"),
            ("root = this.a this.b", 15, "found `t`"),
            ("root = [this.a", 15, "`,` or `]`"),
            ("root = [this.a,]", 16, "this.<field>"),
            ("root = [this.a this.b]", 16, "`,` or `]`"),
            ("root = [this]", 13, "whole record"),
            ('root = "text"', 8, "this.<field>"),
            ("root = (this.a)", 8, "this.<field>"),
            ('root = this."a', 13, 'closing `"`'),
            (r'root = this."\q"', 13, "escapes"),
            (r'root = this."\ud800"', 13, "escapes"),
            ('root = this."a\nb"', 13, "escapes"),
            ("root = " + "[" * (MAX_NESTING + 1), MAX_NESTING + 8, "nested"),
            ("root = this." + "a" * 4096, 4097, "4,096"),
        ],
    )
    def test_refused(self, text: str, column: int, words: str) -> None:
        with pytest.raises(ExpressionRefused) as caught:
            parse(text)
        assert (caught.value.column, words in caught.value.detail) == (column, True), caught.value.detail

    @pytest.mark.parametrize("text", ["root = this.a" + ".a" * 2000, "root = this.a" + "|this.a" * 580])
    def test_long_ones_run(self, text: str) -> None:
        assert select(text, '{"a": null}') == []

    @given(st.text(alphabet=string.ascii_letters + string.digits + ' \n\t".|[](),=\\_ü', max_size=40))
    def test_any_text_is_read_or_refused_with_a_column(self, text: str) -> None:
        assert 1 <= refused_column("root = " + text) <= len(text) + 8


class TestValues:
    @pytest.mark.parametrize(
        ("text", "record", "texts"),
        [
            ("this.a", '{"a": "0xAB"}', ["0xab"]),
            ("this.a", '{"a": " x "}', [" x "]),
            ("this.a", r'{"a": "\u00DC\n"}', ["ü\n"]),
            ("this.a", '{"a": "ÜΣ"}', ["üς"]),
            ("this.a", '{"a": ""}', []),
            ("this.a", '{"a": "%s"}' % ("x" * 1024), ["x" * 1024]),
            ("this.a", '{"a": "%s"}' % ("x" * 1025), []),
            ("this.a", "{}", []),
            ("this.a", '{"a": null}', []),
            ("this.a", '{"a": {"b": "c"}}', []),
            ("this.a", '{"a": 1.50}', ["1.50"]),
            ("this.a", '{"a": -0}', ["-0"]),
            ("this.a", '{"a": 1E400}', ["1e400"]),
            ("this.a", '{"a": %s}' % ("9" * 1000), ["9" * 1000]),
            ("this.a", '{"a": %s}' % ("9" * 5000), []),
            ("this.a", '{"a": true}', ["true"]),
            ("this.a", '{"a": "x", "a": "y"}', ["y"]),
            ("this.a", '{"a": "x", "a": null}', []),
            ("this.a", r'{"\u0061": "x"}', ["x"]),
            ("this.a", r'{"a": "\ud83d\ude00"}', ["😀"]),
            ("this.a", r'{"a": "\ud83d", "b": "\\ud83d"}', ["\ufffd"]),
            ("this.a", r'{"a": "x\udc00y\u0041"}', ["x\ufffdya"]),
            ("this.a", '{"a": ["X", 1, true, null, {"b": "c"}, [["Y"]], ""]}', ["1", "true", "x", "y"]),
            ("this.a.b", '{"a": {"b": "x"}}', ["x"]),
            ("this.a.b", '{"a": {"b": "x", "b": "y"}}', ["y"]),
            ("this.a.b", '{"a": {"b": "x"}, "a": {}}', []),
            ("this.a.b", '{"a": "b"}', []),
            ("this.a.b", '{"a": null}', []),
            ("this.a.b.c", '{"a": [{"b": 1}]}', []),
            ("this.a.1", '{"a": ["x", "y"]}', ["y"]),
            ("this.a.2", '{"a": ["x", "y"]}', []),
            ("this.a.0.b", '{"a": [{"b": 7}]}', ["7"]),
            ("this.a.0", '{"a": {"0": "x"}}', ["x"]),
            ("this.a.0", '{"a": "x"}', []),
            ('this."a.b"', '{"a.b": "x", "a": {"b": "y"}}', ["x"]),
            (r'this."\"\\\n"', r'{"\"\\\n": "x"}', ["x"]),
            ('this.""', '{"": "x"}', ["x"]),
            ("this.a.lowercase()", '{"a": "X"}', ["x"]),
            ("this.a.lowercase()", "{}", []),
            ("this.a.lowercase().b", '{"a": "X"}', []),
            ("this.a | this.b", '{"a": null, "b": "x"}', ["x"]),
            ("this.a | this.b", '{"a": "", "b": "x"}', []),
            ("this.a | this.b", '{"a": [], "b": "x"}', []),
            ("this.a | this.b", '{"a": false, "b": "x"}', ["false"]),
            ("this.a.lowercase() | this.b", '{"a": 1, "b": "x"}', ["x"]),
            ("this.a.b.c | this.b | this.c", '{"b": null, "c": "x"}', ["x"]),
            ("[this.a, this.b, this.c]", '{"a": "x", "b": ["y", 2]}', ["2", "x", "y"]),
            ("[this.a, this.b].1", '{"a": "x", "b": "y"}', ["y"]),
            ("[this.a].1", '{"a": "x"}', []),
            ("[[this.a | this.b], [this.b]]", '{"b": "y"}', ["y", "y"]),
            ("[this.a.lowercase()] | this.b", '{"a": 1, "b": "x"}', ["x"]),
            ("[]", "{}", []),
        ],
    )
    def test_selected(self, text: str, record: str, texts: list[str]) -> None:
        assert select(f"root = {text}", record) == texts

    @pytest.mark.parametrize("value", ["1", "true", "{}", "[]", '["x"]'])
    def test_lowercase_of_no_string(self, value: str) -> None:
        assert refusal("root = this.a.lowercase()", f'{{"a": {value}}}').error == "TypeError"
        assert refusal("root = [this.b, this.a.lowercase()]", f'{{"a": {value}}}').error == "TypeError"
        assert refusal("root = this.b | this.a.lowercase()", f'{{"a": {value}}}').error == "TypeError"


class TestRecords:
    @pytest.mark.parametrize(
        "record",
        [
            None,
            b"",
            b"  ",
            b"{",
            b'{"a": 1} x',
            b'{"a": 1}{"a": 1}',
            b'{"a": "x", "b": [1,]}',
            b'{"a": "x", "b": 01}',
            b'{"a": "x", "b": NaN}',
            b'{"a": "x", "b": tru}',
            b'{"a": "x", "b": "\\q"}',
            b'{"a": "x", "b": "\\ud83d\\udczz"}',
            b'{"a": "x", "b": "\x01"}',
            b'{"a": "x", "b": "\xff"}',
            b'{"a": "x", "\xff": 1}',
            b'{"a": "\xed\xa0\x80"}',
            b'\xef\xbb\xbf{"a": 1}',
            b"[1, 2",
            b'["\\ud800",]',
            b'{"a": "x", "b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            b'{"a": ' + b'{"a": ' * 100_000 + b"1" + b"}" * 100_001,
        ],
    )
    @pytest.mark.parametrize("text", ["root = this.a", r'root = this."\"" | this.a.b', "root = []"])
    def test_no_json(self, text: str, record: bytes | None) -> None:
        assert refusal(text, record).error == "InvalidJSON"

    @pytest.mark.parametrize("record", ["[]", '["a"]', "1", '"a"', "null", "true", r'"\ud800"'])
    @pytest.mark.parametrize("text", ["root = this.a", r'root = this."\"" | this.a.b'])
    def test_no_object(self, text: str, record: str) -> None:
        assert refusal(text, record).error == "NotAnObject"

    def test_a_message_never_shows_the_record(self) -> None:
        assert "secret" not in refusal("root = this.a", '{"a": "secret", "secret"}').message
        assert "secret" not in refusal("root = this.a.lowercase()", '{"a": ["secret"]}').message

    def test_500_levels(self) -> None:
        assert select("root = this.a", '{"a": ' + "[" * 500 + '"X"' + "]" * 500 + "}") == ["x"]
