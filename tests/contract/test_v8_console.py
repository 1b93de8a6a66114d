"""`console` in a script: every method prints, and none fails a record."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.support.sandbox import batch
from tests.support.v8 import Bench

METHODS = [
    "log", "info", "warn", "error", "debug", "trace", "dir", "dirxml", "table", "assert", "clear",
    "count", "countReset", "group", "groupCollapsed", "groupEnd", "time", "timeLog", "timeEnd",
    "timeStamp", "profile", "profileEnd",
]  # fmt: skip


def printed(bench: Bench, body: str, *records: bytes, top: str = "") -> list[str]:
    script = f"{top}\nfunction process(d) {{ {body}\nreturn d }}"
    outcome = bench.transform(script).start(batch(records or [b"{}"])).result()
    assert outcome.failures == []
    return outcome.logs


class TestValues:
    @pytest.mark.parametrize(
        ("value", "line"),
        [
            ("'a', 1, true, null, undefined", "a 1 true null undefined"),
            ("12n, -0, NaN, 1e21, [-0, NaN, 5n]", "12n -0 NaN 1e+21 [-0,NaN,5n]"),
            ("Symbol('s'), () => 1, function f() {}, class C {}", "Symbol(s) [Function] [Function: f] [class: C]"),
            (
                "{ a: 1, b: ['x', { c: null }], 'odd \"name': undefined }",
                '{"a":1,"b":["x",{"c":null}],"odd \\"name":undefined}',
            ),
            ("new Map([['k', { v: 1 }], [2, 'x']])", 'Map(2) {"k" => {"v":1},2 => "x"}'),
            ("new Set([1, 'x']), new Set()", 'Set(2) {1,"x"} Set(0) {}'),
            (
                "new Uint8Array([1, 2]), new Float64Array([0.5]), new BigInt64Array(1)",
                "Uint8Array(2) [1,2] Float64Array(1) [0.5] BigInt64Array(1) [0n]",
            ),
            ("new Uint8Array([7]).buffer, new DataView(new ArrayBuffer(1))", "ArrayBuffer(1) [7] [DataView]"),
            (
                "new Date(5), new Date(NaN), [new Date(5)]",
                "1970-01-01T00:00:00.005Z Invalid Date [1970-01-01T00:00:00.005Z]",
            ),
            ("/a/gi, Object(5), Object('t'), Object(1n)", '/a/gi [Number: 5] [String: "t"] [BigInt: 1n]'),
            ("[new RangeError('r')], { e: new Error() }", '[[RangeError: r]] {"e":[Error]}'),
            (
                "new (class Own { x = 1 })(), Object.create(null), Object.create({ constructor: 5 })",
                'Own {"x":1} {} {}',
            ),
            ("(() => { const a = {}; a.a = [a, {}]; return a })()", '{"a":[[Circular],{}]}'),
            ("(() => { const a = {}; return [a, a] })()", "[{},{}]"),
            ("new Map([[1, new Set([[new Map()]])]])", "Map(1) {1 => Set(1) {[Map(0) {}]}}"),
            ("{ get a() { throw 1 } }, 'b'", "[unprintable] b"),
            ("Promise.resolve(), new WeakMap()", "Promise {} WeakMap {}"),
            ("{ __proto__: Map.prototype }, { [Symbol.toStringTag]: 'Date' }", "Map {} {}"),
        ],
    )
    def test_are_shown(self, bench: Bench, value: str, line: str) -> None:
        assert printed(bench, f"console.log({value})") == [line]

    def test_an_error_shows_where_it_comes_from(self, bench: Bench) -> None:
        assert printed(bench, "console.error(new TypeError('t'))") == ["TypeError: t\n    at process (script.js:2:37)"]

    @settings(max_examples=examples(60))
    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-5, 5)
            | st.floats(min_value=0.1, allow_infinity=False)
            | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        ).map(lambda value: {"v": value})
    )
    def test_a_record_is_shown_as_json(self, module_bench: Bench, record: object) -> None:
        shown, written = printed(
            module_bench, "console.log(d, ''); console.log(JSON.stringify(d))", json.dumps(record).encode()
        )
        assert (
            shown.replace("-0,", "0,").replace("-0}", "0}").replace("-0]", "0]").rstrip() == written.rstrip()
            or len(written) > 900
        )


class TestFormats:
    @pytest.mark.parametrize(
        ("values", "line"),
        [
            ("'%s is %s', 'a', { b: 1 }, 'more'", 'a is {"b":1} more'),
            ("'%d %i %f', '5', '7.9', '1.5x'", "5 7 1.5"),
            ("'%d %d %i', 5n, {}, Symbol()", "5n NaN NaN"),
            ("'%j %o %O', { a: 'x' }, 'x', ['x']", '{"a":"x"} "x" ["x"]'),
            ("'%c styled%c', 'color: red', ''", " styled"),
            ("'100%% %s'", "100%% %s"),
            ("'100%% %s', 1", "100% 1"),
            ("'%s %s', 1", "1 %s"),
            ("'%x %', 1", "%x % 1"),
            ("'%s', '%s', 2", "%s 2"),
            ("5, '%s', 2", "5 %s 2"),
            ("'%j', (() => { const a = []; a[0] = a; return a })()", "[unprintable]"),
        ],
    )
    def test_places_are_filled(self, bench: Bench, values: str, line: str) -> None:
        assert printed(bench, f"console.log({values})") == [line]


class TestMethods:
    def test_tables(self, bench: Bench) -> None:
        assert printed(bench, "console.table([d, { b: 'long', a: 2 }, 5]); console.table('text')", b'{"a":1}') == [
            "(index) | a | b    | Values",
            "0       | 1 |      | ",
            "1       | 2 | long | ",
            "2       |   |      | 5",
            "text",
        ]

    @pytest.mark.parametrize(
        ("value", "rows"),
        [
            ("new Map([['k', { a: 1 }]])", ["(index) | a", "k       | 1"]),
            ("new Set(['x'])", ["(index) | Values", "0       | x"]),
            ("{ r: { a: 1, b: 2 } }, ['b', 'c']", ["(index) | b | c", "r       | 2 | "]),
            ("[]", ["(index)"]),
        ],
    )
    def test_tables_of_other_kinds(self, bench: Bench, value: str, rows: list[str]) -> None:
        assert printed(bench, f"console.table({value})") == rows

    def test_counters_timers_and_groups_are_reset_for_each_record(self, bench: Bench) -> None:
        body = """
          console.count(); console.count('x'); console.count(); console.countReset(); console.count();
          console.time(); console.timeLog('default', 1); console.timeEnd(); console.timeEnd();
          console.group('g'); console.log('in'); console.groupCollapsed(); console.log('deeper');
        """
        lines = ["default: 1", "x: 1", "default: 2", "default: 1"]
        lines += ["default: 0ms 1", "default: 0ms", "Timer 'default' does not exist", "g", "  in", "    deeper"]
        assert printed(bench, body, b"{}", b"{}", top="console.group(); console.count()") == lines * 2

    def test_assertions_and_traces(self, bench: Bench) -> None:
        body = """
          console.assert(1, 'no'); console.assert(0); console.assert(0, '%s', 2, { a: 1 }); console.assert(0, { a: 1 });
        """
        assert printed(bench, body) == ["Assertion failed", 'Assertion failed: 2 {"a":1}', 'Assertion failed: {"a":1}']
        place = "\n    at process (script.js:2:31)"
        assert printed(bench, "console.trace('at %d', 1)") == [f"Trace: at 1{place}"]
        assert printed(bench, "console.trace()") == [f"Trace{place}"]

    @pytest.mark.parametrize("method", METHODS)
    def test_none_fails_a_record(self, bench: Bench, method: str) -> None:
        body = f"""
          const revoked = Proxy.revocable({{}}, {{}}); revoked.revoke();
          const deep = []; for (let i = 0, at = deep; i < 500; i++) at = at[0] = [];
          const odd = [undefined, null, revoked.proxy, {{ toString() {{ throw 1 }} }}, Symbol('s'), deep, '%d%j%s',
            new Array(1e5), {{ get a() {{ throw 1 }} }}, new Proxy([], {{ get() {{ throw 1 }} }}), new Date(NaN),
            {{ [Symbol.toPrimitive]: 1 }}, globalThis, new Map([[revoked.proxy, 1]]),
            Object.defineProperty(() => {{}}, 'name', {{ get() {{ throw 1 }} }})];
          console.{method}();
          for (const one of odd) {{
            console.{method}(one);
            console.{method}('%s %d %i %f %j %o', one, one, one, one, one, one, one);
          }}
          for (const one of odd) console.{method}([one], [one]);
          const {{ {method} }} = console; {method}('x');
          let left = 9;
          const dive = () => {{
            try {{ dive() }} catch (error) {{
              if (left-- > 0) console.{method}('%s', [new Map([[1, d]])]);
              throw error;
            }}
          }};
          try {{ dive() }} catch {{}}
        """
        printed(bench, body)

    def test_the_methods_are_those_of_the_standard(self, bench: Bench) -> None:
        (line,) = printed(bench, "console.log(Reflect.ownKeys(console).sort().join(' '))")
        assert line.split() == sorted(METHODS)

    def test_a_filter_that_shows_its_records(self, bench: Bench) -> None:
        assert printed(bench, "console.table([d]);", b'{"a":1}') == ["(index) | a", "0       | 1"]


class TestLimits:
    def test_large_values_are_truncated(self, bench: Bench) -> None:
        body = """
          console.log('x'.repeat(5000)); console.log(new Array(1e9)); console.log({ a: 'x'.repeat(5000) });
          console.log(new Map(Array.from({ length: 5000 }, (_, i) => [i, i]))); console.log(new Uint8Array(1e6));
          console.log('%s', 'x'.repeat(5000), 'y'); console.log(Array.from({ length: 1e5 }, () => ({})));
        """
        assert {len(line) for line in printed(bench, body)} == {1000}

    def test_a_record_has_twenty_lines(self, bench: Bench) -> None:
        assert len(printed(bench, "console.table(Array.from({ length: 50 }, (_, i) => i)); console.log(1)")) == 20


def test_lines_of_a_record_with_many_dependent_lookups_are_printed_once(bench: Bench) -> None:
    bench.fill("wallets", [f"w{number}" for number in range(20)])
    body = "let n = 0; while (flow.contains('wallets', [`w${n}`])) n++; console.log(n);"
    assert printed(bench, body) == ["20"]
