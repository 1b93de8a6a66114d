"""Stack traces of scripts show only the script's own frames, and nothing of the sandbox."""

import json
import re
from typing import Any

import pytest

from tests.support.v8 import Bench

FRAME = re.compile(r"    at (?:.+ \()?script\.js:\d+:\d+\)?")


def outcome(bench: Bench, body: str, top: str = "") -> Any:
    kept, failures = bench.run(f"{top}\nfunction process(d) {{ {body} }}", [b'{"a":1}'])
    assert failures == []
    return json.loads(kept[0] or b"")


class TestFrames:
    @pytest.mark.parametrize(
        "deed",
        [
            "throw new Error('x')",
            "null.x",
            "missing",
            "JSON.parse('{')",
            "JSON.parse('[1]', () => { throw new Error('x') })",
            "JSON.stringify([1], () => { throw new Error('x') })",
            "JSON.stringify({ toJSON() { throw new Error('x') } })",
            "[1].map(() => { throw new Error('x') })",
            "flow.contains(1)",
            "flow.contains('wallets', [{}])",
            "atob('?')",
            "new TextDecoder('none')",
            "structuredClone(() => 1)",
            "structuredClone({ get a() { throw new Error('x') } })",
            "new Date(Symbol())",
            "eval('1')",
            "new Function('1')",
            "Object.prototype.toString = 1",
            "BigInt(1.5)",
            "const dive = () => dive(); dive()",
            "new Proxy({}, { get() { throw new Error('x') } }).x",
            "new Intl.NumberFormat('?')",
            "Temporal.Instant.from('?')",
            "[...{}]",
            "class A { #x; static f(a) { return a.#x } } A.f({})",
            "d.a = 1n + 1",
            "const o = {}; Error.captureStackTrace(o); throw o",
            "throw new AggregateError([1], 'many')",
            "console.log.call(1).x",
        ],
    )
    def test_frames_are_of_the_script_only(self, bench: Bench, deed: str) -> None:
        stack = outcome(bench, f"try {{ {deed} }} catch (error) {{ return {{ stack: error.stack }} }}")["stack"]
        head, *frames = [line for line in stack.split("\n") if line.startswith("    at ")] or [None]
        assert head is not None
        assert all(FRAME.fullmatch(line) for line in [head, *frames]), stack

    def test_frames_have_the_engines_names(self, bench: Bench) -> None:
        body = """
          const f = () => { throw new TypeError('t') };
          class Own extends Error {
            constructor(m) { super(m); this.name = 'Own' }
            static make() { return new Own('o') }
          }
          try { [1].forEach(f) } catch (error) { return { arrow: error.stack, made: Own.make().stack } }
        """
        assert outcome(bench, body) == {
            "arrow": "TypeError: t\n    at f (script.js:3:35)\n    at process (script.js:8:21)",
            "made": "Own: o\n    at Own.make (script.js:6:36)\n    at process (script.js:8:89)",
        }

    def test_an_error_of_the_top_level(self, bench: Bench) -> None:
        top = "const f = () => new Error('top').stack; const STACK = f();"
        assert outcome(bench, "return { STACK }", top) == {
            "STACK": "Error: top\n    at f (script.js:1:17)\n    at script.js:1:55"
        }

    def test_odd_names_and_messages(self, bench: Bench) -> None:
        body = """
          const of = (members) => Object.defineProperties(new Error('m'), members).stack.split('\\n')[0];
          return { heads: [of({ name: { value: '' } }), of({ message: { value: '' } }),
            of({ name: { value: 5 }, message: { value: null } }), of({ name: { get() { throw 1 } } }),
            of({ name: { value: { toString() { throw 1 } } } })] };
        """
        assert outcome(bench, body) == {"heads": ["m", "Error", "5: null", "Error: m", "Error: m"]}


class TestCallSites:
    """The engine's call sites are objects of the outer realm, so scripts must not get them."""

    TAKE = "static prepareStackTrace(error, sites) { taken.push(sites); return 'mine' }"

    @pytest.mark.parametrize(
        "deed",
        [
            "Error.prepareStackTrace = (error, sites) => { taken.push(sites) }",
            f"class Error {{ {TAKE} }}",
            f"var Error = class {{ {TAKE} }}",
            f"let Error = class {{ {TAKE} }}",
            "function Error() {} Error.prepareStackTrace = (error, sites) => { taken.push(sites) }",
            f"globalThis.Error = class {{ {TAKE} }}",
            f"globalThis.Error = class extends Error {{ {TAKE} }}",
            f"Object.defineProperty(globalThis, 'Error', {{ value: class {{ {TAKE} }} }})",
            f"delete globalThis.Error; globalThis.Error = class {{ {TAKE} }}",
            "globalThis.Error = Object.freeze({ prepareStackTrace(error, sites) { taken.push(sites) } })",
            "globalThis.Error = new Proxy({}, { get: () => take, defineProperty: () => true })",
            "globalThis.Error = new Proxy(() => 1, { get: () => take })",
            "for (const o of [Function.prototype, Object.prototype]) o.prepareStackTrace = take",
        ],
    )
    @pytest.mark.parametrize("strict", ["", "'use strict';"])
    def test_are_not_handed_out(self, bench: Bench, deed: str, strict: str) -> None:
        declares = not deed.startswith(("Error", "globalThis", "Object", "delete", "for"))
        lists = "const taken = [], take = (error, sites) => { taken.push(sites) };"
        top = f"{strict} {lists} {deed if declares else f'try {{ {deed} }} catch {{}}'}"
        body = """
          try { null.x } catch (error) { String(error.stack) }
          new TypeError('x').stack; const o = {}; try { TypeError.captureStackTrace(o); o.stack } catch {}
          const odd = () => { try { odd() } catch (error) { error.stack } }; odd();
          return { taken: taken.length };
        """
        assert outcome(bench, body, top) == {"taken": 0}

    def test_a_script_that_calls_prepare_stack_trace_itself(self, bench: Bench) -> None:
        body = """
          const sites = [{ getFileName: () => 'script.js', toString: () => 'own' }, { getFileName: () => 'other' }];
          const texts = [[new Error('m'), sites], [{}, 5], []].map((given) => Error.prepareStackTrace(...given));
          return { texts };
        """
        assert outcome(bench, body) == {"texts": ["Error: m\n    at own", "Error", "Error"]}


class TestOwnError:
    """A script may define its own `Error`."""

    @pytest.mark.parametrize(
        "declared",
        [
            "class Error { constructor(m) { this.m = m } }",
            "function Error(m) { this.m = m }",
            "let Error = function (m) { this.m = m }",
            "const { Error } = { Error: class { constructor(m) { this.m = m } } }",
            "var Error = function (m) { this.m = m }",
            "globalThis.Error = function (m) { this.m = m }",
            "'use strict'; class Error extends TypeError { constructor(m) { super(m); this.m = m } }",
        ],
    )
    def test_is_used(self, bench: Bench, declared: str) -> None:
        body = "const made = new Error('own'); try { null.x } catch (e) { return { m: made.m, stack: e.stack } }"
        got = outcome(bench, body, f"{declared} // the last\n//")
        assert got["m"] == "own"
        assert got["stack"].endswith("    at process (script.js:3:65)")

    def test_keeps_strictness_state_and_positions(self, bench: Bench) -> None:
        script = """'use strict'
          class Error {}
          let count = 0;
          const self = this;
          const transform = (d) => { if (d.bad) missing = 1; return { count: ++count, same: self === globalThis } };"""
        kept, failures = bench.run(script, [b"{}", b'{"bad":1}', b"{}"])
        assert kept == [b'{"count":1,"same":true}', b'{"count":2,"same":true}']
        assert [(failure.error, failure.line, failure.column) for failure in failures] == [("ReferenceError", 5, 57)]

    def test_state_with_lookups(self, bench: Bench) -> None:
        script = """class Error {}
          const seen = new Map();
          function process(d) {
            if (!seen.has(d.v)) seen.set(d.v, flow.contains('wallets', [d.v]));
            return { v: d.v, is: seen.get(d.v), size: seen.size };
          }"""
        values = ["0xaa", "no", "0xbb", "no", "0xaa"] * 2
        kept, failures = bench.run(script, [json.dumps({"v": value}).encode() for value in values])
        results = [json.loads(text or b"") for text in kept]
        assert failures == []
        assert [one["is"] for one in results] == [value.startswith("0x") for value in values]
        assert [one["size"] for one in results] == [1, 2, 3, 3, 3, 3, 3, 3, 3, 3]

    @pytest.mark.parametrize("deed", ["Error = class {}", "globalThis.Error = 5", "Error.x = 1"])
    def test_one_record_does_not_change_it_for_the_next(self, bench: Bench, deed: str) -> None:
        script = f"""const Native = Error;
        function process() {{ try {{ {deed} }} catch {{}} return {{ is: Error === Native, x: Error.x }} }}"""
        assert bench.run(script, [b"{}"] * 2) == ([b'{"is":true}'] * 2, [])


class TestFrozenBuiltIns:
    SENTENCE = "built-ins are frozen after the script's top level has run: change them at the top level"

    @pytest.mark.parametrize(
        "deed",
        [
            "Array.prototype.map = f",
            "BigInt.prototype.toJSON = f",
            "Date.now = f",
            "Math.max = f",
            "String.prototype.at = f",
            "Object.assign = f",
            "Map.prototype.get = f",
            "Error.captureStackTrace = f",
            "TextDecoder.prototype.decode = f",
            "delete Array.prototype.map",
            "Object.prototype.toString = f",
            "Error.prototype.toString = f",
            "Error = f",
        ],
    )
    def test_a_strict_script_gets_an_error_with_advice(self, bench: Bench, deed: str) -> None:
        _, failures = bench.run(f"'use strict'; const f = () => 1; function process() {{ {deed} }}", [b"{}"])
        ((error, message),) = [(failure.error, failure.message) for failure in failures]
        assert error == "TypeError"
        assert message.endswith(self.SENTENCE)
        assert "If this" not in message
        assert "harness" not in message

    @pytest.mark.parametrize(
        "deed",
        [
            "Array.prototype.last = f",
            "String.prototype.trimAll = f",
            "JSON = f",
            "console.log = f",
            "globalThis.atob = f",
            "Object.defineProperty(Array.prototype, 'last', { value: f })",
            "Object.defineProperty(Math, 'max', { value: f })",
            "Object.freeze({}).own = f",
        ],
    )
    def test_where_the_engine_names_no_object_the_advice_has_an_if(self, bench: Bench, deed: str) -> None:
        _, failures = bench.run(f"'use strict'; const f = () => 1; function process() {{ {deed} }}", [b"{}"])
        assert [failure.message.endswith(f". If this is a built-in: {self.SENTENCE}") for failure in failures] == [True]

    @pytest.mark.parametrize("deed", ["Object.freeze([1])[0] = 2", "Object.freeze([1]).push(2)"])
    def test_the_scripts_own_frozen_array_gets_no_advice(self, bench: Bench, deed: str) -> None:
        _, failures = bench.run(f"'use strict'; function process() {{ {deed} }}", [b"{}"])
        assert ["built-in" in failure.message for failure in failures] == [False]

    def test_a_script_that_is_not_strict_is_not_stopped(self, bench: Bench) -> None:
        script = "function process(r) { BigInt.prototype.toJSON = function () { return this.toString() }; return r }"
        assert bench.run(script, [b'{"a":12345678901234567890}']) == ([b'{"a":12345678901234567890}'], [])


def test_the_text_of_flow_contains_is_that_of_a_function_of_the_engine(bench: Bench) -> None:
    script = "function process(r) { return { text: String(flow.contains), name: flow.contains.name } }"
    assert bench.run(script, [b"{}"])[0] == [b'{"text":"function () { [native code] }","name":"contains"}']
