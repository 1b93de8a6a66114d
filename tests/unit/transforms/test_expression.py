"""Filter expressions: grammar, values and every kind of record, by examples."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidExpression
from headwater.transforms.bloblang.nodes import (
    Array,
    Catch,
    Coalesce,
    Deleted,
    Element,
    MapEach,
    MapQuery,
    Method,
    MethodChain,
    Node,
    Or,
    Path,
    ScopeValue,
    Step,
    StringLiteral,
)
from headwater.transforms.bloblang.parser import MAX_NESTING
from headwater.transforms.expression import parse
from tests.support.expressions import refusal, select


def refused_column(text: str) -> int:
    """Return the column of the error, 1 when there is none."""
    try:
        parse(text)
    except InvalidExpression as refused:
        return refused.column
    return 1


def of_record(*names: str, then: tuple[Step, ...] = ()) -> MethodChain:
    return MethodChain(ScopeValue(0), (Path(names), *then))


A, B = of_record("a"), of_record("b")
LOWER = Method("lowercase")


class TestGrammar:
    @pytest.mark.parametrize(
        ("text", "node"),
        [
            ("root = this.a", A),
            ("root=this.a", A),
            (" \n root  =\n\tthis.a \n", A),
            ("this.a", A),
            ("# why\n# more\nroot = # here\nthis.a # end", A),
            ("root = this.root", of_record("root")),
            ("root = this.this", of_record("this")),
            ("root = this.a.b.0", of_record("a", "b", "0")),
            ("root = this.\n a", A),
            ('root = this."odd name"', of_record("odd name")),
            (r'root = this."a\"\u0042\n.c"."☃"', of_record('a"B\n.c', "☃")),
            ('root = this.""', of_record("")),
            ('this."x = y"', of_record("x = y")),
            ("this.root", of_record("root")),
            ("root = this.lowercase", of_record("lowercase")),
            ("root = this.a.lowercase()", of_record("a", then=(LOWER,))),
            ("root = this.a.lowercase( ).b", of_record("a", then=(LOWER, Path(("b",))))),
            ("root = this.a|this.b", Coalesce((A, B))),
            ("root = this.a |\n this.b | this.a", Coalesce((A, B, A))),
            ("root = [this.a, this.b]", Array((A, B))),
            ("root = [ this.a , this.b, ]", Array((A, B))),
            ("root = [\n this.a | this.b,\n [] ]", Array((Coalesce((A, B)), Array(())))),
            ("root = [this.a].0", MethodChain(Array((A,)), (Path(("0",)),))),
            ("root = (\n this.a )", A),
            ('root = (this.a).b.get("c.d")', of_record("a", "b", "c", "d")),
            ('root = this.get("a~1b.~0")', of_record("a.b", "~")),
            ("root = (this.a | this.b).c", MethodChain(Coalesce((A, B)), (Path(("c",)),))),
            ("root = this.(a | b)", Coalesce((A, B))),
            ("root = this.(a).b", MethodChain(A, (Path(("b",)),))),
            ("root = this.a.(b)", of_record("a", then=(MapQuery(MethodChain(ScopeValue(1), (Path(("b",)),))),))),
            ("root = this.a[ 0 ][-1]", of_record("a", then=(Element(0), Element(-1)))),
            ("root = this.a.index(007)", of_record("a", then=(Method("index", (7,)),))),
            ("root = this.a.slice(1, -2, )", of_record("a", then=(Method("slice", (1, -2)),))),
            ("root = this.a.map_each(this)", of_record("a", then=(MapEach(ScopeValue(1)),))),
            ("root = this.a.map_each(b -> b)", of_record("a", then=(MapEach(ScopeValue(1)),))),
            ("root = this.a.map_each(b -> this.a)", of_record("a", then=(MapEach(A),))),
            ("root = this.a.or(this.b)", of_record("a", then=(Or(B),))),
            ("root = this.a.catch(deleted( ))", of_record("a", then=(Catch(Deleted()),))),
            (r'root = "it\u0041 \"x\""', StringLiteral('itA "x"')),
            ('root = """a "raw"\n\\n text"""', StringLiteral('a "raw"\n\\n text')),
            ('root = ""', StringLiteral("")),
            ("root = deleted()", Deleted()),
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
            ('let a = "x"', 1, "Variables are not supported"),
            ('meta a = "x"', 1, "no headers"),
            ("map a { root = this.b }", 1, "Imports and named maps"),
            ("root = root.a", 8, "Expected `this`"),
            ("root = this", 12, "whole record"),
            ("root = this | this.a", 12, "whole record"),
            ("root = this.", 13, "field name"),
            ("root = this..a", 13, "field name"),
            ("root = this .a", 12, "whole record"),
            ("root = this.a.", 15, "field name"),
            ("root = this.a .b", 15, "found `.`"),
            ("root = this.a [0]", 15, "found `[`"),
            ("root = this.odd-name", 16, 'this."odd name"'),
            ("root = this.ü", 13, "field name"),
            ("root = this.lowercase()", 13, "before the method"),
            ("root = this[0]", 12, "a member of the record"),
            ("root = this.a.reverse()", 15, "reverse()"),
            ("root = this.a.lowercase(1)", 25, "no arguments"),
            ("root = this.a.lowercase(", 25, "no arguments"),
            ("root = this.a.trim_prefix()", 27, 'trim_prefix("0x")'),
            ("root = this.a.trim_prefix(this.b)", 27, "string in double quotes"),
            ("root = this.a.slice()", 21, "whole numbers"),
            ("root = this.a.slice(2, 1)", 20, "below"),
            ("root = this.a.slice(low: 1)", 21, "whole numbers"),
            ("root = this.a.index(1.5)", 22, "whole number"),
            ("root = this.a[0:2]", 16, ".slice(0, 2)"),
            ("root = this.a[this.b]", 15, "whole number"),
            ("root = this.a[9223372036854775808]", 15, "whole number"),
            ("root = this.a.or()", 18, "one query"),
            ("root = this.a.map_each(p->p.b)", 24, "spaces around `->`"),
            ("root = this.a.map_each(this -> this.b)", 24, "another name"),
            ("root = this.a.map_each(p -> p.b.map_each(p -> p.c))", 42, "another name"),
            ("root = this.a.map_each(p -> b)", 29, "this.b"),
            ("root = this.a.map_each(p -> this)", 33, "whole record"),
            ("root = this.(p -> p.a)", 16, "map_each(item -> item.<field>)"),
            ("root = this.(nullable | b)", 14, "this.nullable"),
            ("root = this.a.catch(this.b)", 21, ".or(this.<field>)"),
            ("root = this.a.catch(b)", 21, ".or(this.<field>)"),
            ("root = this.a.catch(null)", 21, "strings in double quotes"),
            ("root = this.a |", 16, "root = this.<field>"),
            ("root = this.a || this.b", 15, "single `|`"),
            ("root = this.a ?? this.b", 15, "single `|`"),
            ("root = this.a or this.b", 15, "single `|`"),
            ("root = this.a && this.b", 15, "v8 transform"),
            ("root = this.a and this.b", 15, "v8 transform"),
            ('root = this.a in ["x"]', 15, "Comparisons are not supported"),
            ('root = this["a"]', 12, 'this."odd name"'),
            ('root = this.a["b"]', 15, '."odd name"'),
            ("root = this.a[*].b", 15, '."*"'),
            ("root = this.a.map_each(x => x.b)", 26, "The arrow is `->`"),
            ("root = this.a\n| this.b", 15, "found `|`"),
            ("root = this.a this.b", 15, "found `t`"),
            ("root = this.a\nroot = this.b", 15, "an array"),
            ("root = [this.a", 15, "`,` or `]`"),
            ("root = [,]", 9, "this.<field>"),
            ("root = [this.a this.b]", 16, "`,` or `]`"),
            ("root = [this]", 13, "whole record"),
            ("root = (this.a", 15, "`)`"),
            ("root = (this.a == this.b)", 16, "Comparisons are not supported"),
            ("root = 5", 8, "strings in double quotes"),
            ("root = this.a | null", 17, "strings in double quotes"),
            ("root = 'a'", 8, "double quotes"),
            ("root = deleted", 8, "deleted()"),
            ("root = deleted(1)", 16, "no arguments"),
            ('root = metadata("k")', 8, "not its key or headers"),
            ("root = @k", 8, "not its key or headers"),
            ("root = $k", 8, "Variables are not supported"),
            ('root = """a"', 8, '`"""`'),
            ('root = this."""a"""', 15, "double quotes"),
            ('root = this."a', 13, 'closing `"`'),
            (r'root = this."\q"', 13, "escapes"),
            (r'root = this."\ud800"', 13, "escapes"),
            ('root = this."a\nb"', 13, "escapes"),
            ("root = " + "[" * (MAX_NESTING + 1), MAX_NESTING + 8, "nested"),
            ("root = " + "(" * (MAX_NESTING + 1), MAX_NESTING + 8, "nested"),
            ("root = this" + ".(this" * (MAX_NESTING + 1), 8 + 6 * (MAX_NESTING + 1) - 1, "nested"),
            ("root = this." + "a" * 4096, 4097, "4,096"),
        ],
    )
    def test_refused(self, text: str, column: int, words: str) -> None:
        with pytest.raises(InvalidExpression) as caught:
            parse(text)
        assert (caught.value.column, words in caught.value.detail) == (column, True), caught.value.detail

    @pytest.mark.parametrize("text", ["root = this.a" + ".a" * 2000, "root = this.a" + "|this.a" * 580])
    def test_long_expressions_run(self, text: str) -> None:
        assert select(text, '{"a": null}') == []

    @given(st.text(alphabet=string.ascii_letters + string.digits + ' \n\t".|[](),=\\_ü->#*', max_size=40))
    def test_any_text_is_parsed_or_rejected_with_a_column(self, text: str) -> None:
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
            ("this.a.lowercase()", '{"a": 1}', []),
            ("this.a.lowercase()", '{"a": ["x"]}', []),
            ("[this.a.lowercase(), this.b]", '{"a": 1, "b": "x"}', []),
            ("[this.a.lowercase(), this.b]", '{"b": "x"}', []),
            ('this.a."*".b', '{"a": [{"b": "x"}, {"b": null}, {}, {"b": ["y"]}]}', ["x", "y"]),
            ('this.a."*"', '{"a": {"*": "x"}}', ["x"]),
            ('this.a."+1"', '{"a": ["x", "y"]}', ["y"]),
            ("this.a.parse_json()", r'{"a": "12345678901234567890"}', ["12345678901234567890"]),
            ("this.a.parse_json().b", r'{"a": "{\"b\": \"\\ud800\"}"}', ["\ufffd"]),
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
    def test_invalid_json(self, text: str, record: bytes | None) -> None:
        assert refusal(text, record).error == "InvalidJSON"

    @pytest.mark.parametrize("record", ["[]", '["a"]', "1", '"a"', "null", "true", r'"\ud800"'])
    @pytest.mark.parametrize("text", ["root = this.a", r'root = this."\"" | this.a.b'])
    def test_records_that_are_not_objects(self, text: str, record: str) -> None:
        assert refusal(text, record).error == "NotAnObject"

    def test_a_message_never_shows_the_record(self) -> None:
        assert "secret" not in refusal("root = this.a", '{"a": "secret", "secret"}').message

    def test_500_levels(self) -> None:
        assert select("root = this.a", '{"a": ' + "[" * 500 + '"X"' + "]" * 500 + "}") == ["x"]
