"""`JSON` in a script behaves as in plain JavaScript, with two exceptions.

BigInts are serialised, and no integer loses digits.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.support.plain_chain import PlainDeno
from tests.support.v8 import Bench

MAX_SAFE = 2**53 - 1


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainDeno]:
    with PlainDeno() as plain_deno:
        yield plain_deno


def values() -> st.SearchStrategy[Any]:
    numbers = st.integers(-MAX_SAFE, MAX_SAFE) | st.floats(allow_nan=False, allow_infinity=False)
    names = st.sampled_from(["a", "b", "1", "toJSON", "é", "", "__proto__"])
    return st.recursive(
        st.none() | st.booleans() | numbers | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )


WRITES = """function process({ value, replacer, space }) {
  const found = {
    none: undefined, null: null, number: 7, names: ['a', 'é', 1], copy: (key, one) => one,
    drop(key, one) { return Array.isArray(this) || key !== 'a' ? one : undefined },
    wrap: (key, one) => key === 'b' ? { a: [one] } : one,
    kinds: (key, one) => typeof one === 'number' ? String(one) : one,
    inner: (key, one) => key === 'a' ? JSON.stringify({ b: one }) : one,
  }[replacer];
  return { text: JSON.stringify(value, found, space) ?? null };
}"""
READS = """function process({ text, reviver }) {
  const seen = [], found = {
    none: undefined, null: null, copy: (key, one) => one, drop: (key, one) => key === 'a' ? undefined : one,
    sources(key, one, { source }) { seen.push([key, source ?? null, Array.isArray(this)]); return one },
    double: (key, one) => typeof one === 'number' ? one * 2 : one,
  }[reviver];
  try { return { value: JSON.parse(text, found) ?? null, seen } } catch (error) { return { error: error.message } }
}"""
COPIES = "function process({ text }) { return { text: JSON.stringify(JSON.parse(text)) } }"


class TestAsInPlainJavaScript:
    @settings(max_examples=examples(60))
    @given(
        records=st.lists(
            st.fixed_dictionaries(
                {
                    "value": values(),
                    "replacer": st.sampled_from(
                        ["none", "null", "number", "names", "copy", "drop", "wrap", "kinds", "inner"]
                    ),
                    "space": st.sampled_from([None, 0, 2, 20, "", "--", "\t", {}]),
                }
            ),
            min_size=1,
            max_size=20,
        )
    )
    def test_stringify(self, plain: PlainDeno, module_bench: Bench, records: list[Any]) -> None:
        sent = [json.dumps(record).encode() for record in records]
        kept, failures = module_bench.run(WRITES, sent)
        assert failures == []
        assert [[(text or b"").decode()] for text in kept] == plain.run([WRITES], sent)

    @settings(max_examples=examples(60))
    @given(
        records=st.lists(
            st.fixed_dictionaries(
                {
                    "text": values().map(json.dumps) | st.text(alphabet='{}[]",:1a- \\0e.', max_size=8),
                    "reviver": st.sampled_from(["none", "null", "copy", "drop", "sources", "double"]),
                }
            ),
            min_size=1,
            max_size=20,
        )
    )
    @example(records=[{"text": '[{"a":1234567890123456.5,"b":[1234567890123456]}, 1e300]', "reviver": "sources"}])
    @example(records=[{"text": "1234567890123456", "reviver": reviver} for reviver in ("none", "sources", "double")])
    def test_parse(self, plain: PlainDeno, module_bench: Bench, records: list[Any]) -> None:
        sent = [json.dumps(record).encode() for record in records]
        kept, failures = module_bench.run(READS, sent)
        assert failures == []
        assert [[(text or b"").decode()] for text in kept] == plain.run([READS], sent)

    @pytest.mark.parametrize(("name", "length"), [("stringify", 3), ("parse", 2), ("rawJSON", 1)])
    def test_functions_look_like_the_engines(self, bench: Bench, name: str, length: int) -> None:
        script = f"""function process() {{
          const f = JSON.{name};
          let is = 'no constructor';
          try {{ new f('1'); is = 'a constructor' }} catch {{}}
          return {{ is, text: String(f), name: f.name, length: f.length, own: Object.getOwnPropertyNames(f).sort() }};
        }}"""
        kept, _ = bench.run(script, [b"{}"])
        assert json.loads(kept[0] or b"") == {
            "is": "no constructor",
            "text": "function () { [native code] }",
            "name": name,
            "length": length,
            "own": ["length", "name"],
        }


class TestDigits:
    @settings(max_examples=examples(60))
    @given(
        numbers=st.lists(st.integers(-(10**40), 10**40) | st.integers(MAX_SAFE - 3, MAX_SAFE + 10**6), min_size=1),
        blank=st.sampled_from(["", " ", "\n\t"]),
    )
    def test_a_copy_has_the_digits_of_every_integer(self, module_bench: Bench, numbers: list[int], blank: str) -> None:
        text = f"[{blank}{f'{blank},{blank}'.join(map(str, numbers))}{blank}]"
        texts = [text, *map(str, numbers), json.dumps({"a": {"b": numbers}}, separators=("," + blank, ":"))]
        kept, _ = module_bench.run(COPIES, [json.dumps({"text": one}).encode() for one in texts])
        assert [json.loads(json.loads(result or b"")["text"]) for result in kept] == [*map(json.loads, texts)]

    @pytest.mark.parametrize(
        ("text", "kind", "digits"),
        [
            ("9007199254740991", "number", "9007199254740991"),
            ("9007199254740993", "bigint", "9007199254740993"),
            ("48393744103758200", "number", "48393744103758200"),
            ("1000000000000000000", "number", "1000000000000000000"),
            ("10000000000000000000000", "bigint", "10000000000000000000000"),
            ("-12345678901234567890", "bigint", "-12345678901234567890"),
            ("1e22", "number", "1e+22"),
            ("12345678901234567890.0", "number", "12345678901234567000"),
            ("1" + "0" * 400, "bigint", "1" + "0" * 400),
        ],
    )
    def test_an_integer_is_a_bigint_where_a_number_would_lose_digits(
        self, bench: Bench, text: str, kind: str, digits: str
    ) -> None:
        script = """function process({ text }) {
          const plain = JSON.parse(text), revived = JSON.parse(`{"a":[${text}]}`, (key, one) => one).a[0];
          let source; JSON.parse(text, (key, one, context) => { source = context.source });
          return { kinds: [typeof plain, typeof revived], digits: [String(plain), String(revived)], source };
        }"""
        kept, failures = bench.run(script, [json.dumps({"text": text}).encode()])
        assert failures == []
        assert json.loads(kept[0] or b"") == {"kinds": [kind] * 2, "digits": [digits] * 2, "source": text}

    @pytest.mark.parametrize(
        ("call", "text"),
        [
            ("JSON.stringify(r)", '{"a":12345678901234567890}'),
            ("JSON.stringify(r, null, 1)", '{\n "a": 12345678901234567890\n}'),
            ("JSON.stringify(r, ['a'])", '{"a":12345678901234567890}'),
            ("JSON.stringify(r, (k, v) => v)", '{"a":12345678901234567890}'),
            ("JSON.stringify(r, (k, v) => typeof v === 'bigint' ? `${v}n` : v)", '{"a":"12345678901234567890n"}'),
            ("JSON.stringify(r, (k, v) => k ? [v, { v }] : v)", None),
            ("JSON.stringify(r.a, (k, v) => typeof v)", '"bigint"'),
            ("JSON.stringify({ b: 1 }, (k, v) => k ? r.a : v)", '{"b":12345678901234567890}'),
            ("JSON.stringify({ b: Object(5n) }, (k, v) => v)", '{"b":5}'),
            ("JSON.stringify({ toJSON() { return JSON.stringify([r.a]) } }, (k, v) => v)", '"[12345678901234567890]"'),
            ("JSON.stringify({ b: JSON.stringify(r, (k, v) => v) })", '{"b":"{\\"a\\":12345678901234567890}"}'),
        ],
    )  # fmt: skip
    def test_a_replacer_sees_the_bigint_and_may_return_one(self, bench: Bench, call: str, text: str | None) -> None:
        kept, failures = bench.run(
            f"function process(r) {{ return {{ text: {call} }} }}", [b'{"a":12345678901234567890}']
        )
        if text is None:
            assert [failure.error for failure in failures] == ["RangeError"]
        else:
            assert json.loads(kept[0] or b"") == {"text": text}

    def test_a_stopped_call_has_no_effect_on_the_next_record(self, bench: Bench) -> None:
        """Neither a timeout nor an error in a replacer changes how the next record is serialised."""
        script = """function process(r) {
          if (r.n === 1) JSON.stringify({ toJSON() { for (;;); } }, (k, v) => v);
          if (r.n === 2) JSON.stringify(1, () => { throw new Error('own') });
          return { n: 10n ** 20n, text: JSON.stringify(1n) };
        }"""
        kept, failures = bench.run(script, [b'{"n":%d}' % n for n in range(4)])
        assert kept == [b'{"n":100000000000000000000,"text":"1"}'] * 2
        assert [failure.error for failure in failures] == ["Timeout", "Error"]


class TestCircles:
    MANY = b'{"n":2,%b}' % b",".join(b'"k%d":%d' % (i, i) for i in range(30))

    @pytest.mark.parametrize(
        "body",
        [
            "r.self = r; return r",
            "return [r, { r: [r], get s() { return this } }]",
            "r.self = r; return { text: JSON.stringify(r) }",
            "r.self = { r }; throw JSON.stringify({ r })",
            "r.self = r; r.big = 1n; return r",
        ],
    )
    def test_the_error_names_the_circular_structure(self, bench: Bench, body: str) -> None:
        _, failures = bench.run(f"function process(r) {{ {body} }}", [b'{"n":1}', self.MANY] * 4)
        assert {failure.error for failure in failures} == {"TypeError"}
        assert all(failure.message.startswith("Converting circular structure to JSON") for failure in failures)
        assert len(failures) == 8

    def test_serialisation_works_after_a_circular_structure(self, bench: Bench) -> None:
        script = """function process(r) {
          if (r.deep) return JSON.parse('{"a":'.repeat(r.deep) + '1' + '}'.repeat(r.deep));
          return r.self ? r.self = r : { ...r, toJSON(key) { return { n: r.n, key } } };
        }"""
        records = [b'{"n":1}', b'{"deep":9000}', b'{"n":3}']
        before, _ = bench.run(script, records)
        behind, failures = bench.run(script, [b'{"self":1}', *records])
        assert [failure.row for failure in failures] == [0]
        assert behind == before == [b'{"n":1,"key":""}', before[1], b'{"n":3,"key":""}']
        assert len(before[1] or b"") == 54_001

    def test_printing_a_circular_structure_is_fast(self, bench: Bench) -> None:
        script = "function process(r) { const c = { ...r }; c.c = c; console.log(c); return r }"
        kept, failures = bench.run(script, [self.MANY] * 20)
        assert (len(kept), failures) == (20, [])
