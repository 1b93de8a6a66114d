"""Web functions behave in scripts as in plain Deno.

They are `atob`, `btoa`, `TextEncoder`, `TextDecoder` and `structuredClone`.
"""

import base64
import json
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.support.plain_chain import PlainDeno
from tests.support.v8 import Bench


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainDeno]:
    with PlainDeno() as plain_deno:
        yield plain_deno


def assert_as_in_plain_deno(plain: PlainDeno, bench: Bench, script: str, records: list[Any]) -> None:
    sent = [json.dumps(record).encode() for record in records]
    kept, failures = bench.run(script, sent)
    assert failures == []
    assert [[(text or b"").decode()] for text in kept] == plain.run([script], sent)


TRY = """const tried = (f) => {
  try { return f() } catch (e) { return [e.name, e instanceof Error, typeof e.code === 'number' ? e.code : null] }
};"""
BASE64 = f"""{TRY}
function process({{ text }}) {{
  const made = {{ atob: tried(() => atob(text)), btoa: tried(() => btoa(text)) }};
  return {{ ...made, back: typeof made.btoa === 'string' && atob(made.btoa) === text }};
}}"""
ENCODES = """function process({ text, room }) {
  const encoder = new TextEncoder(), whole = encoder.encode(text);
  const part = new Uint8Array(room + 2).subarray(1, room + 1);
  const { read, written } = encoder.encodeInto(text, part);
  return { whole: [...whole], read, written, part: [...part], exact: whole.buffer.byteLength === whole.length };
}"""
DECODES = f"""{TRY}
function process({{ bytes, label, fatal, ignoreBOM, shape }}) {{
  const array = new Uint8Array([7, ...bytes, 7]), part = array.subarray(1, bytes.length + 1);
  const input = {{
    part, copy: new Uint8Array(bytes).buffer, view: new DataView(array.buffer, 1, bytes.length),
    units: new Uint16Array(new Uint8Array(bytes.slice(0, bytes.length & ~1)).buffer),
  }}[shape];
  return {{ made: tried(() => {{
    const decoder = new TextDecoder(label, {{ fatal, ignoreBOM }});
    return [decoder.encoding, decoder.fatal, decoder.ignoreBOM, decoder.decode(input)];
  }}) }};
}}"""
LABELS = ["utf-8", "UTF8", " utf-8\n", "utf-16le", "utf-16", "ucs-2", "latin1", "ascii", "windows-1252", "no-such", ""]


def texts() -> st.SearchStrategy[str]:
    return st.text(alphabet=st.characters(exclude_categories=()), max_size=12)


def byte_lists() -> st.SearchStrategy[list[int]]:
    utf8, utf16 = (st.text(max_size=6).map(methodcaller("encode", kind)).map(list) for kind in ("utf-8", "utf-16-le"))
    marks = st.sampled_from(
        [[0xEF, 0xBB, 0xBF], [0xFF, 0xFE], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xF0, 0x9F], [0x00, 0xD8]]
    )
    parts = st.one_of(utf8, utf16, marks, st.lists(st.integers(0, 255), max_size=4))
    return st.lists(parts, max_size=4).map(lambda lists: [byte for part in lists for byte in part])


class TestTexts:
    @settings(max_examples=examples(60))
    @given(
        values=st.lists(
            st.text(alphabet="AQIDz09+/=- \n\f\v_", max_size=9)
            | st.text(alphabet=st.characters(max_codepoint=0x110), max_size=9)
            | st.binary(max_size=30).map(lambda data: base64.b64encode(data).decode()),
            min_size=1,
            max_size=30,
        )
    )
    @example(
        values=[
            "a",
            "ab",
            "abc",
            "ab=",
            "ab==",
            "abc=",
            "abcd=",
            "ab==c",
            "a=",
            "=",
            " a b\tc\n",
            "ab=\n=",
            "/x==",
            "a\xa0b",
        ]
    )
    def test_base64(self, plain: PlainDeno, module_bench: Bench, values: list[str]) -> None:
        assert_as_in_plain_deno(plain, module_bench, BASE64, [{"text": text} for text in values])

    @settings(max_examples=examples(60))
    @given(
        records=st.lists(st.fixed_dictionaries({"text": texts(), "room": st.integers(0, 20)}), min_size=1, max_size=20)
    )
    def test_encode(self, plain: PlainDeno, module_bench: Bench, records: list[Any]) -> None:
        assert_as_in_plain_deno(plain, module_bench, ENCODES, records)

    @settings(max_examples=examples(100))
    @given(
        records=st.lists(
            st.fixed_dictionaries(
                {
                    "bytes": byte_lists(),
                    "label": st.sampled_from(LABELS),
                    "fatal": st.booleans(),
                    "ignoreBOM": st.booleans(),
                    "shape": st.sampled_from(["part", "copy", "view", "units"]),
                }
            ),
            min_size=1,
            max_size=30,
        )
    )
    def test_decode(self, plain: PlainDeno, module_bench: Bench, records: list[Any]) -> None:
        assert_as_in_plain_deno(plain, module_bench, DECODES, records)

    def test_every_byte_and_long_texts(self, plain: PlainDeno, module_bench: Bench) -> None:
        script = """function process({ n }) {
          const bytes = new Uint8Array(n).map((_, i) => i);
          const text = String.fromCharCode(...bytes.subarray(0, 256)).repeat(n >> 8);
          return { latin: new TextDecoder('latin1').decode(bytes), utf8: new TextDecoder().decode(bytes),
            back: atob(btoa(text)) === text, same: new TextDecoder().decode(new TextEncoder().encode(text)) === text };
        }"""
        assert_as_in_plain_deno(plain, module_bench, script, [{"n": n} for n in (256, 4095, 4096, 4097, 9000)])

    @pytest.mark.parametrize(
        "call",
        [
            "atob()",
            "btoa()",
            "atob(Symbol())",
            "new TextDecoder('utf-8', 5)",
            "new TextDecoder().decode('text')",
            "TextDecoder()",
            "new TextDecoder().decode({})",
            "TextEncoder.prototype.encode.call({}, '')",
            "TextDecoder.prototype.decode.call({})",
            "new TextEncoder().encodeInto('a', [])",
            "new TextEncoder().encodeInto('a', new Uint16Array(1))",
        ],
    )
    def test_wrong_calls_are_type_errors(self, plain: PlainDeno, bench: Bench, call: str) -> None:
        assert_as_in_plain_deno(
            plain, bench, f"{TRY} function process() {{ return {{ made: tried(() => {call}) }} }}", [{}]
        )

    def test_parts_of_a_stream_are_refused(self, bench: Bench) -> None:
        """A decoder's state between calls would be kept from record to record."""
        _, failures = bench.run(
            "function process() { return { t: new TextDecoder().decode(new Uint8Array(1), { stream: true }) } }",
            [b"{}"],
        )
        assert [(failure.error, "stream" in failure.message) for failure in failures] == [("TypeError", True)]

    def test_a_solana_instruction(self, bench: Bench) -> None:
        script = "function process(r) { return { bytes: Array.from(atob(r.data), (c) => c.charCodeAt(0)) } }"
        assert bench.run(script, [b'{"data":"AQID"}']) == ([b'{"bytes":[1,2,3]}'], [])


CLONES = (Path(__file__).parents[1] / "support" / "clones.js").read_text()
TYPED = [
    "Uint8Array",
    "Int8Array",
    "Uint8ClampedArray",
    "Int16Array",
    "Uint16Array",
    "Int32Array",
    "Uint32Array",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "BigInt64Array",
    "BigUint64Array",
    "DataView",
]
ERRORS = ["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"]


def specs() -> st.SearchStrategy[list[Any]]:
    def pair(kind: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return values.map(lambda value: [kind, value])

    leaves = st.one_of(
        pair("value", st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)),
        pair("special", st.sampled_from(["undefined", "nan", "zero", "big", "infinity"])),
        pair("up", st.integers(0, 9)),
        pair("date", st.sampled_from([0, 5, 1e13, 1e99])),
        pair("regexp", st.sampled_from(["", "gi", "v", "dsy"])),
        pair("wrapped", st.integers(0, 3)),
        st.tuples(st.just("error"), st.sampled_from(ERRORS), st.text(max_size=3), st.none() | st.just("why")).map(list),
        st.sampled_from([["class"], ["getter"], ["bytes"], ["named array"]]),
        pair("view", st.sampled_from(TYPED)),
    )
    keys = st.sampled_from(["a", "1", "toString", "constructor", "__proto__", "hidden", "é", ""])
    return st.recursive(
        leaves | leaves | leaves | pair("refused", st.integers(0, 9)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda parts: ["array", *parts]),
            st.lists(inner, max_size=3).map(lambda parts: ["set", *parts]),
            st.lists(st.tuples(keys, inner).map(list), max_size=3).map(lambda parts: ["object", *parts]),
            st.lists(st.tuples(keys, inner).map(list), max_size=3).map(lambda parts: ["map", *parts]),
        ),
        max_leaves=8,
    )


class TestStructuredClone:
    @settings(max_examples=examples(100))
    @given(values=st.lists(specs(), min_size=1, max_size=20))
    def test_clones(self, plain: PlainDeno, module_bench: Bench, values: list[Any]) -> None:
        assert_as_in_plain_deno(plain, module_bench, CLONES, [{"spec": spec} for spec in values])

    def test_a_transferred_buffer_is_detached(self, plain: PlainDeno, bench: Bench) -> None:
        script = f"""{TRY}
        function process() {{
          const buffer = new Uint8Array([1, 2]).buffer;
          const copy = structuredClone({{ b: buffer }}, {{ transfer: [buffer] }}).b;
          return {{ sizes: [buffer.byteLength, copy.byteLength], again: tried(() => structuredClone(buffer)),
            other: tried(() => structuredClone(1, {{ transfer: [{{}}] }})),
            none: tried(() => structuredClone()), options: tried(() => structuredClone([1], null)) }};
        }}"""
        assert_as_in_plain_deno(plain, bench, script, [{}])

    def test_a_copy_of_a_record_keeps_its_digits(self, bench: Bench) -> None:
        record = b'{"a":12345678901234567890,"b":{"c":[1,null,"x"]}}'
        assert bench.run("function process(r) { return structuredClone(r) }", [record]) == ([record], [])

    def test_depth_is_an_error_of_the_record(self, bench: Bench) -> None:
        script = (
            "function process() { let d = []; for (let i = 0; i < 1e5; i++) d = [d]; structuredClone(d); return {} }"
        )
        _, failures = bench.run(script, [b"{}"])
        assert [failure.error for failure in failures] == ["RangeError"]


class TestGlobals:
    NAMES = ("atob", "btoa", "TextEncoder", "TextDecoder", "structuredClone", "console", "Date")

    @pytest.mark.parametrize("name", NAMES)
    def test_a_script_may_declare_its_own(self, bench: Bench, name: str) -> None:
        for declared in (f"const {name} = 5", f"function {name}() {{}}", f"class {name} {{}}", f"var {name} = 5"):
            script = f"{declared}; function process() {{ return {{ kind: typeof {name} }} }}"
            kind = b"number" if "5" in declared else b"function"
            assert bench.run(script, [b"{}"]) == ([b'{"kind":"%s"}' % kind], [])

    def test_they_are_frozen_while_records_are_processed(self, bench: Bench) -> None:
        script = """function process(r) {
          for (const f of [atob, btoa, TextEncoder, TextDecoder, structuredClone, console, console.log]) f.x = 1;
          TextDecoder.prototype.decode = TextEncoder.prototype.encode = () => 'replaced';
          try { atob('?') } catch (e) {
            e.constructor.x = 1;
            try { e.constructor.prototype.toString = () => 'replaced' } catch {}
          }
          atob = btoa = structuredClone = () => 'replaced'; TextDecoder = TextEncoder = console = null;
          let text; try { atob('?') } catch (e) { text = String(e) + e.constructor.x }
          const back = new TextDecoder().decode(new TextEncoder().encode(btoa('a')));
          return { x: [atob.x, TextDecoder.x], back, text };
        }"""
        text = "InvalidCharacterError: atob: the text is not correctly encoded as base64undefined"
        expected = {"x": [None, None], "back": "YQ==", "text": text}
        kept, failures = bench.run(script, [b"{}", b"{}"])
        assert failures == []
        assert [json.loads(result or b"") for result in kept] == [expected, expected]

    def test_they_look_like_the_engines(self, bench: Bench) -> None:
        script = """function process() {
          class Mine extends TextDecoder { twice(b) { return this.decode(b) + this.decode(b) } }
          const all = [atob, btoa, TextEncoder, TextDecoder, structuredClone, Date];
          return { names: all.map((f) => f.name + f.length + f),
            mine: new Mine('latin1').twice(new Uint8Array([65])), is: new Mine() instanceof TextDecoder,
            same: TextDecoder.prototype.constructor === TextDecoder && Date.prototype.constructor === Date,
            tag: String(new TextEncoder()),
            date: [new Date(5) instanceof Date, new (class extends Date {})(7).getTime()] };
        }"""
        kept, _ = bench.run(script, [b"{}"])
        text = "function () { [native code] }"
        assert json.loads(kept[0] or b"") == {
            "names": [
                f"{name}{text}"
                for name in ("atob1", "btoa1", "TextEncoder0", "TextDecoder0", "structuredClone1", "Date7")
            ],
            "mine": "AA",
            "is": True,
            "same": True,
            "tag": "[object TextEncoder]",
            "date": [True, 7],
        }
