"""Scripts try to leave their realm, to access the harness, or to affect other records."""

from typing import Any

import msgspec
import pytest

from headwater.errors import InvalidScript
from headwater.sandbox import Sandbox
from tests.support.sandbox import batch, lines, lookup, result, run

REPLACE_EVERYTHING = """
  const keysOf = Reflect.ownKeys, text = String;
  const owners = [Array, BigInt, Boolean, Date, Error, Function, JSON, Map, Math, Number, Object, Promise, Reflect,
    RegExp, Set, String, Symbol];
  for (let i = 0; i < 2 * owners.length; i++) {
    const owner = i % 2 ? owners[(i - 1) / 2].prototype : owners[i / 2];
    const keys = owner ? keysOf(owner) : [];
    for (let k = 0; k < keys.length; k++) {
      try {
        if (typeof owner[keys[k]] === 'function' && keys[k] !== 'constructor') {
          owner[keys[k]] = () => { throw new Error('replaced ' + text(keys[k])) };
        }
      } catch {}
    }
  }
"""


def between(sandbox: Sandbox, body: str, top_level: str = "") -> Any:
    """Return the outcome of a bad record.

    The good records around it and the next batch must be unaffected.
    """
    script = f"{top_level}\nfunction process(d) {{ if (!d.bad) return d;\n{body}\n}}"
    number = sandbox.add(script, lookup({"x": {"member"}}))
    job = sandbox.submit(number, batch(lines({"a": 1}, {"bad": 1}, {"a": 3})))
    sandbox.wait(job)
    assert (job.outputs[0], job.outputs[2]) == (b'{"a":1}', b'{"a":3}')
    after = sandbox.submit(number, batch(lines({"a": 4})))
    sandbox.wait(after)
    assert after.outputs == [b'{"a":4}']
    if job.failures:
        return job.failures[1].error
    return msgspec.json.decode(job.outputs[1]) if job.outputs[1] else None


class TestRealm:
    GLOBALS = {"console", "flow", "process"}

    def test_the_constructor_of_a_harness_function_makes_no_code(self, shared_sandbox: Sandbox) -> None:
        body = "try { return flow.contains.constructor('return this')() } catch (e) { return { got: e.name } }"
        assert between(shared_sandbox, body) == {"got": "EvalError"}

    def test_only_standard_globals(self, shared_sandbox: Sandbox) -> None:
        names = result(shared_sandbox, "return { names: Reflect.ownKeys(globalThis).map(String) }")["names"]
        assert {"Object", "JSON", "Date"} | self.GLOBALS <= {*names}
        assert len(names) < 75
        foreign = {
            "Deno",
            "fetch",
            "require",
            "Buffer",
            "SOURCES",
            "WebAssembly",
            "Atomics",
            "SharedArrayBuffer",
            "performance",
        }
        assert not foreign & {*names}
        assert not [name for name in names if name.startswith(("h", "_", "Symbol("))]

    def test_every_reachable_object_is_of_this_realm(self, shared_sandbox: Sandbox) -> None:
        body = """
          const caught = (f) => { try { return f() } catch (error) { return error } };
          const open = [globalThis, new Proxy({}, {}), (function* () {})(), /a/.exec('a'), new Error('x'),
            new TextDecoder(), new TextEncoder().encode('é'), new TextEncoder().encodeInto('é', new Uint8Array(9)),
            structuredClone([new Map([[{}, new Date()]]), new Error('x'), new DataView(new ArrayBuffer(1))]),
            caught(() => atob('?')),
            caught(() => structuredClone(open)), caught(() => new TextDecoder('none')), caught(() => null.x)];
          Error.captureStackTrace(open[3]);
          const seen = new Set();
          let foreign = 0;
          while (open.length) {
            const value = open.pop();
            const callable = typeof value === 'function';
            if ((typeof value !== 'object' && !callable) || value === null || seen.has(value)) continue;
            seen.add(value);
            if (callable && !(value instanceof Function) && value !== Function.prototype) foreign += 1;
            for (const key of Reflect.ownKeys(value)) {
              const found = Reflect.getOwnPropertyDescriptor(value, key);
              open.push(found.value, found.get, found.set);
            }
            open.push(Reflect.getPrototypeOf(value));
          }
          return { objects: seen.size, foreign };
        """
        walked = result(shared_sandbox, body)
        assert walked["objects"] > 700
        assert walked["foreign"] == 0

    def test_call_sites_are_not_handed_out(self, shared_sandbox: Sandbox) -> None:
        top = "let sites = null; try { Error.prepareStackTrace = (e, s) => { sites = s; return 'mine' } } catch {}"
        got = between(
            shared_sandbox, "let stack; try { null.x } catch (e) { stack = e.stack } return { sites, stack }", top
        )
        assert got["sites"] is None
        assert got["stack"].startswith("TypeError: ")

    def test_stack_traces_can_not_be_redefined(self, shared_sandbox: Sandbox) -> None:
        body = """
          const found = [];
          for (const key of ['prepareStackTrace', 'captureStackTrace', 'stackTraceLimit']) {
            try { Object.defineProperty(Error, key, { value: () => 1 }); found.push(key) } catch {}
          }
          return { found };
        """
        assert between(shared_sandbox, body) == {"found": []}

    def test_callers_are_not_shown(self, shared_sandbox: Sandbox) -> None:
        body = """
          function f() { return [f.caller === process, arguments.callee.caller.caller] }
          return { f: f(), p: process.caller };
        """
        assert between(shared_sandbox, body) == {"f": [True, None], "p": None}

    @pytest.mark.parametrize("top", ["", "let processed = 0;"])
    def test_an_overflow_within_the_harness_throws_nothing_foreign(self, shared_sandbox: Sandbox, top: str) -> None:
        """A script with state waits for the results of `flow.contains`."""
        body = """
          if (typeof processed === 'number') processed += 1;
          let asked = 0;
          let foreign = null;
          const dive = () => {
            try { dive() } catch (e) {
              const ours = [() => flow.contains('x', [`v${asked++ % 50}`]), () => new Date(), Math.random,
                () => x.stack, () => console.log(''), () => atob('YQ'), () => structuredClone([{}]),
                () => new TextDecoder().decode(new TextEncoder().encode('é'))];
              for (const f of ours) try { f() } catch (x) { if (!(x instanceof Error)) foreign = String(x) }
            }
          };
          try { dive() } catch {}
          return { foreign };
        """
        # Sometimes the overflow is inside the harness. Any outcome without a foreign object is correct.
        assert between(shared_sandbox, body, top) in ({"foreign": None}, "RangeError", "Timeout")

    def test_removed_globals_stay_removed(self, shared_sandbox: Sandbox) -> None:
        body = """
          const names = ['Atomics', 'Deno', 'FinalizationRegistry', 'ShadowRealm', 'SharedArrayBuffer', 'WeakRef',
            'WebAssembly', 'Worker', 'clearTimeout', 'crypto', 'fetch', 'gc', 'navigator', 'performance',
            'queueMicrotask', 'require',
            'setInterval', 'setTimeout'];
          const makers = [function () {}, async function () {}, function* () {}, async function* () {}];
          const trying = (f) => { try { f(); return 'made' } catch (e) { return e.name } };
          const made = [...makers.map((f) => trying(() => f.constructor('return 1'))), trying(() => eval('1'))];
          return { there: names.filter((name) => name in globalThis), made, match: RegExp.$1 === undefined };
        """
        assert between(shared_sandbox, body) == {"there": [], "made": ["EvalError"] * 5, "match": True}


class TestImports:
    def test_a_dynamic_import_never_resolves(self, shared_sandbox: Sandbox) -> None:
        top = """
          let state = 'pending';
          const urls = ['node:fs', 'file:///etc/passwd', 'data:text/javascript,export default 1', 'https://a.example/'];
          for (const url of urls) import(url).then(() => { state = 'resolved' }, () => { state = 'rejected' });
        """
        assert between(shared_sandbox, "return { state }", top) == {"state": "pending"}

    @pytest.mark.parametrize("line", ['import fs from "node:fs"', "export default 1", "await 1"])
    def test_modules_are_refused(self, shared_sandbox: Sandbox, line: str) -> None:
        with pytest.raises(InvalidScript) as refused:
            shared_sandbox.add(f"{line}; function process(d) {{ return d }}", lookup({}))
        assert refused.value.line == 1


class TestResults:
    @pytest.mark.parametrize(
        ("body", "outcome"),
        [
            ("return new Proxy({}, { ownKeys() { throw new RangeError('trap') } })", "RangeError"),
            ("return new Proxy({}, { ownKeys() { for (;;) {} } })", "Timeout"),
            ("return new Proxy({}, { get(t, k) { throw 1 } })", "Error"),
            ("return new Proxy(function () {}, {})", "InvalidOutput"),
            ("return Proxy.revocable({}, {}).proxy", {}),
            ("const r = Proxy.revocable({}, {}); r.revoke(); return r.proxy", "TypeError"),
            ("return { get a() { throw new SyntaxError('getter') } }", "SyntaxError"),
            ("let n = 0; return { get a() { return ++n } }", {"a": 1}),
            ("let n = 0; return { get then() { return n++ ? () => {} : undefined }, v: 1 }", {"v": 1}),
            ("return { toJSON() { return 'a line\\n{\"forged\":1}' } }", "InvalidOutput"),
            ("return { toJSON() { return { other: 1 } } }", {"other": 1}),
            ("return { toJSON() {} }", "InvalidOutput"),
            ("return JSON.rawJSON('5')", "InvalidOutput"),
            ("return (async () => d)()", "InvalidOutput"),
            ("return { then(f) { f(1) } }", "InvalidOutput"),
            ("for (let i = 0; i < 1e4; i++) Promise.resolve().then(() => { for (;;) {} }); return { v: 1 }", {"v": 1}),
            ("const a = {}; a.a = a; return a", "TypeError"),
            ("return Symbol('s')", "InvalidOutput"),
            ("return () => d", "InvalidOutput"),
            ("return 'text'", "InvalidOutput"),
            ("return 5", "InvalidOutput"),
            ("return true", "InvalidOutput"),
            ("return 7n", "InvalidOutput"),
            ("return new Date(0)", "InvalidOutput"),
            ("return { a: 7n, b: -(2n ** 70n) }", {"a": 7, "b": -(2**70)}),
            ("return { n: NaN, i: -Infinity, u: undefined }", {"n": None, "i": None}),
            ("return { z: -0, m: new Map([[1, 2]]) }", {"z": 0, "m": {}}),
            ("return { s: 'a\\nb\\0c\\u2028d\\u00ff\\u0003' }", {"s": "a\nb\0c\u2028d\u00ff\u0003"}),
            ("return { ['k\\n\\t']: '\\t' }", {"k\n\t": "\t"}),
            ("return [{ a: '\\t' }, { b: '\\n' }]", None),
            ("return { r: 'é'.repeat(499990) }", {"r": "é" * 499990}),
            ("return { r: 'é'.repeat(500000) }", "OutputTooLarge"),
            ("return { r: 'x'.repeat(1000001) }", "OutputTooLarge"),
            ("throw { name: 'Odd', message: 5, stack: 7 }", "Odd"),
            ("throw { get name() { throw 1 } }", "Error"),
            ("throw new Proxy({}, { get() { for (;;) {} } })", "Timeout"),
            ("throw null", "Error"),
            ("throw Symbol()", "Error"),
            ("throw 'just text'", "Error"),
            ("class Mine extends Error { name = 'Mine' }; throw new Mine('m')", "Mine"),
        ],
    )  # fmt: skip
    def test_own_record_only(self, shared_sandbox: Sandbox, body: str, outcome: Any) -> None:
        if outcome is None:
            script = f"function process(d) {{ {body} }}"
            assert run(shared_sandbox, script, [b"{}"]).outputs == [b'{"a":"\\t"}\t{"b":"\\n"}']
        else:
            assert between(shared_sandbox, body) == outcome

    def test_a_lone_surrogate_leaves_escaped(self, shared_sandbox: Sandbox) -> None:
        job = run(shared_sandbox, "function process(d) { d.s = 'x\\ud800'; return d }", [b"{}"])
        assert job.outputs == [rb'{"s":"x\ud800"}']

    def test_a_lone_surrogate_in_an_error(self, shared_sandbox: Sandbox) -> None:
        job = run(shared_sandbox, "function process() { console.log('\\udfff'); throw new Error('\\ud800') }", [b"{}"])
        assert (job.failures[0].message, job.logs) == ("?", ["?"])


class TestOtherRecords:
    """Changes of built-ins by one record never affect another record."""

    @pytest.mark.parametrize(
        "deed",
        [
            "Object.prototype.leak = 1",
            "JSON.parse('{\"__proto__\": {}}').__proto__.leak = 1; ({}).__proto__.leak = 1",
            "Array.prototype.leak = 1; Object.prototype.leak = 1",
            "Object.defineProperty(Object.prototype, 'leak', { value: 1 })",
            "Object.setPrototypeOf(Object.prototype, { leak: 1 })",
            "Object.setPrototypeOf(Array.prototype, { leak: 1 }); Reflect.setPrototypeOf(Map, { leak: 1 })",
            "Array.prototype.map = () => ['leak']",
            "Array.prototype.length = 7",
            "String.prototype.toUpperCase = () => 'leak'",
            "Array.prototype[Symbol.iterator] = function* () { yield 'leak' }",
            "Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({ value: 'leak', done: false })",
            "Map.prototype.get = () => 'leak'; Set.prototype.has = () => true",
            "JSON.stringify = () => '{\"leak\":1}'; JSON.parse = () => ({ leak: 1 })",
            "globalThis.JSON = { parse: () => ({ leak: 1 }), stringify: () => 'leak' }; globalThis.Map = null",
            "Date.now = () => 5; Math.random = () => 5; Math.max = () => 5; Date.prototype.getTime = () => 5",
            "globalThis.Date = class { getTime() { return 5 } }",
            "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => 'leak'",
            "RegExp.prototype.exec = () => ['leak']; RegExp.prototype[Symbol.replace] = () => 'leak'",
            "Number.prototype.toString = BigInt.prototype.toJSON = () => 'leak'",
            "Object.getPrototypeOf(function* () {}).leak = 1; Object.getPrototypeOf(async () => 1).leak = 1",
            "Object.keys = Object.entries = Object.assign = () => ['leak']; Reflect.ownKeys = () => ['leak']",
            "Object.defineProperty(Array.prototype, '0', { set() {}, get() { return 'leak' } })",
            "Object.defineProperty(Object.prototype, '1', { set() {}, get() { return 'leak' } })",
            "Error.prototype.message = 'leak'; Error.stackTraceLimit = 0; TypeError.prototype.name = 'leak'",
            "flow = { contains: () => true }; flow.contains = () => true",
            "Object.defineProperty(globalThis, 'flow', { value: { contains: () => true } })",
            "console = null; console.log = null; flow.leak = 1",
            "globalThis.process = () => ({ leak: 1 }); process = () => ({ leak: 1 })",
            "'abc'.match(/(b)/)",
            REPLACE_EVERYTHING,
        ],
    )  # fmt: skip
    def test_nothing_leaks(self, shared_sandbox: Sandbox, deed: str) -> None:
        script = """
          const view = (d) => {
            let caught; try { null.x } catch (e) { caught = e.name + ': ' + e.message.slice(0, 11) }
            console.log('here');
            const m = new Map([['k', 'v']]), all = [...[3, 4]].map((x) => x + 1);
            for (const x of new Set([7])) all.push(x);
            const f = function* () {};
            return {
              leak: ({}).leak ?? [].leak ?? Map.leak ?? f.leak ?? RegExp.$1 ?? null, all, m: m.get('k'),
              up: 'a'.toUpperCase(), json: JSON.stringify(JSON.parse('[1]')), time: new Date().getTime(),
              now: Date.now(), random: Math.random(), max: Math.max(1, 2), same: 'x-y'.replace(/-/, '+'),
              call: ((x) => x).call(null, 1), big: 2n ** 64n, caught, keys: Object.keys({ a: 1 }),
              member: flow.contains('x', ['member']), other: flow.contains('x', ['other']),
              zero: [][0] ?? null, one: ({})[1] ?? null, number: (5).toString(), contains: typeof flow.leak,
              length: Array.prototype.length,
            };
          };
        """
        clean = run(
            shared_sandbox, f"{script} function process(d) {{ return view(d) }}", lines({}, {}, {}), {"x": {"member"}}
        )
        script = f"{script} function process(d) {{ if (d.bad) {{ try {{ {deed} }} catch {{}} }} return view(d) }}"
        job = run(shared_sandbox, script, lines({}, {"bad": 1}, {}), {"x": {"member"}})
        assert not clean.failures
        assert (job.outputs[0], job.outputs[2]) == (clean.outputs[0], clean.outputs[2])
        seen = msgspec.json.decode(job.outputs[2] or b"")
        assert (seen["leak"], seen["member"], seen["other"], seen["caught"]) == (
            None,
            True,
            False,
            "TypeError: Cannot read",
        )

    def test_instances_can_still_be_assigned_to(self, shared_sandbox: Sandbox) -> None:
        body = """
          'use strict';
          d.toString = 'x'; d.constructor = 1; d.valueOf = 2; d.hasOwnProperty = 3; d.__proto__ = null;
          const e = new TypeError('m'); e.name = 'Renamed'; e.message = 'n';
          class Mine extends Error { constructor(m) { super(m); this.name = 'Mine' } }
          const C = function () {}; C.prototype.toString = () => 'C!'; C.prototype.constructor = C;
          return { ...d, e: String(e), mine: String(new Mine('q')), c: String(new C()) };
        """
        expected = {"toString": "x", "constructor": 1, "valueOf": 2, "hasOwnProperty": 3}
        assert result(shared_sandbox, body) == {**expected, "e": "Renamed: n", "mine": "Mine: q", "c": "C!"}

    def test_the_top_level_may_extend_built_ins(self, shared_sandbox: Sandbox) -> None:
        top = """
          Array.prototype.last = function () { return this[this.length - 1] };
          Object.prototype.everywhere = { everywhere: 1 };
          BigInt.prototype.toJSON = function () { return String(this) };
          Array.prototype.toJSON = function () { return 'array' };
        """
        got = between(
            shared_sandbox,
            "return { last: [1, 2].last(), big: 2n ** 60n, list: [1], c: flow.contains('x', ['member']) }",
            top,
        )
        assert got == {"last": 2, "big": str(2**60), "list": "array", "c": True}

    def test_everything_replaced_by_the_top_level(self, shared_sandbox: Sandbox) -> None:
        assert between(shared_sandbox, "return { r: 1, c: flow.contains('x', ['member']) }", REPLACE_EVERYTHING) == {
            "r": 1,
            "c": True,
        }

    @pytest.mark.parametrize("prototype", ["Array", "Object"])
    def test_index_setters_at_the_top_level_are_refused(self, shared_sandbox: Sandbox, prototype: str) -> None:
        script = (
            f"Object.defineProperty({prototype}.prototype, '0', {{ set() {{}} }}); function process(d) {{ return d }}"
        )
        with pytest.raises(InvalidScript):
            shared_sandbox.add(script, lookup({}))

    def test_species_and_subclasses(self, shared_sandbox: Sandbox) -> None:
        top = """
          const Plain = Array;
          class Odd extends Plain { get length() { return 9 } }
          try { Object.defineProperty(Array, Symbol.species, { value: Odd }) } catch {}
          globalThis.Array = class extends Plain {};
        """
        assert between(shared_sandbox, "return { r: [1, 2].length, c: flow.contains('x', ['member']) }", top) == {
            "r": 2,
            "c": True,
        }

    def test_a_proxy_behind_the_global_object_sees_nothing(self, shared_sandbox: Sandbox) -> None:
        top = """
          const seen = [];
          const spy = new Proxy({}, {
            has(t, k) { seen.push(String(k)); return false }, get(t, k) { seen.push(String(k)) },
            set(t, k) { seen.push(String(k)); return true }, defineProperty(t, k) { seen.push(String(k)); return true },
          });
          try { Object.setPrototypeOf(globalThis, spy) } catch {}
        """
        assert between(shared_sandbox, "return { seen }", top)["seen"] in ([], ["transform"])

    def test_a_frozen_global_object(self, shared_sandbox: Sandbox) -> None:
        assert between(shared_sandbox, "Object.freeze(globalThis); return { ok: 1 }") == {"ok": 1}


class TestContains:
    def test_odd_names_and_values(self, shared_sandbox: Sandbox) -> None:
        sets = {"x": {"y\0z", "ünïcode", "5", "1e+21", "7", "-0.5", "nan", "0"}, "x\0y": {"z"}, "": {"e"}}
        body = """
          const ask = (name, values) => { try { return flow.contains(name, values) } catch (e) { return e.name } };
          const lying = (length) => new Proxy([], { get: (t, k) => (k === 'length' ? length : 1) });
          return {
            r: [ask('x', ['y\\0z']), ask('x\\0y', ['z']), ask('x\\0y', ['y\\0z']), ask('x', ['z']), ask('', ['e']),
              ask('x', ['A'.repeat(1e6)]), ask('x', ['\\ud800']), ask('x', ['ÜNÏcode']), ask('x', [null, undefined]),
              ask('x', [5]), ask('x', [7n]), ask('x', [1e21]), ask('x', [-0.5]), ask('x', [NaN]), ask('x', [-0]),
              ask('x', [])],
            bad: [ask(1, ['a']), ask('x', 'a'), ask('x'), ask('x', [{}]), ask('x', [true]), ask('x', [Symbol()]),
              ask('x', [[]]), ask('x', new Array(1001).fill('a')), ask('x', lying(1e9)), ask('x', lying('many'))],
          };
        """
        got = result(shared_sandbox, body, None, sets)
        truth = [True, True, False, False, True, False, False, True, False, True, True, True, True, True, True, False]
        assert got == {"r": truth, "bad": ["TypeError"] * 10}

    @pytest.mark.parametrize(
        "call", ["flow.contains('nobody', ['a'])", "flow.contains('nobody', [])", "flow.contains('n'.repeat(500), [])"]
    )
    @pytest.mark.parametrize("swallow", [False, True])
    def test_an_unknown_dataset_is_an_error_whatever_the_script_catches(
        self, shared_sandbox: Sandbox, call: str, swallow: bool
    ) -> None:
        body = f"try {{ {call} }} catch {{}} return {{}}" if swallow else f"{call}; return {{}}"
        assert between(shared_sandbox, body) == "UnknownDataset"

    def test_not_at_the_top_level(self, shared_sandbox: Sandbox) -> None:
        with pytest.raises(InvalidScript, match="while a record is processed"):
            shared_sandbox.add("flow.contains('x', ['a']); function process(d) { return d }", lookup({}))

    def test_the_name_flow_is_taken(self, shared_sandbox: Sandbox) -> None:
        with pytest.raises(InvalidScript, match="flow"):
            shared_sandbox.add("let flow = 1; function process(d) { return d }", lookup({}))
