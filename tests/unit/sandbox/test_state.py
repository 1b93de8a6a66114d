"""Which scripts keep something from record to record."""

import time
from pathlib import Path

import pytest

from headwater.sandbox.analysis.state import keeps_state
from headwater.sandbox.analysis.tree import parse

ASKS = "flow.contains('w', [r.a])"

KEEP_NOTHING = [
    f"function process(r) {{ return {ASKS} ? r : null; }}",
    f"const process = (r) => {ASKS} ? {{...r, x: 1}} : null;",
    f"const NAMES = ['a', 'b']; function process(r) {{ return flow.contains('w', NAMES) ? r : null; }}",
    f"const SET = new Set(['a']); function process(r) {{ if (SET.has(r.a)) return null; return {ASKS} ? r : null; }}",
    f"const T = {{a: {{symbol: 'x', decimals: 1}}}}; function process(r) {{ const t = T[r.a]; if (!t) return null; "
    f"return {ASKS} ? {{...r, symbol: t.symbol, n: 10 ** t.decimals}} : null; }}",
    f"const T = new Map([['a', 1]]); function process(r) {{ return {ASKS} ? {{...r, n: T.get(r.a) ?? 0}} : null; }}",
    f"const RE = /^0x/i; function process(r) {{ return RE.test(r.a) && {ASKS} ? r : null; }}",
    f"function lower(x) {{ return x.toLowerCase(); }} function process(r) {{ r.b = lower(r.a); return {ASKS} ? r : null; }}",
    f"const lists = Object.freeze({{a: ['x']}}); function process(r) {{ let n = 0; for (const x of lists.a) n += x.length; "
    f"return {ASKS} ? {{n}} : null; }}",
    f"const big = 10n ** 18n; let scale = 3; function process(r) {{ return {ASKS} ? {{v: big * BigInt(scale)}} : null; }}",
    f"class Amount {{ constructor(v) {{ this.v = v; }} half() {{ this.v = this.v / 2; return this; }} }} "
    f"function process(r) {{ const a = new Amount(r.n).half(); return {ASKS} ? {{n: a.v}} : null; }}",
    f"const byName = {{}}; for (const n of ['a', 'b']) byName[n] = n.length; "
    f"function process(r) {{ return {ASKS} ? {{n: byName[r.a]}} : null; }}",
    f"const L = ['a']; const S = new Set(L.map((x) => x.toLowerCase())); function process(r) {{ "
    f"return S.has(r.a) && {ASKS} ? r : null; }}",
    f"function process(r) {{ const seen = new Set(); for (const x of r.list) seen.add(x); r.n = seen.size; "
    f"const out = []; out.push(r); return {ASKS} ? out : null; }}",
    f"const F = new Intl.NumberFormat('en'); function process(r) {{ return {ASKS} ? {{n: F.format(r.n)}} : null; }}",
    f"const {{a, b: [c]}} = {{a: 1, b: [2]}}; function process(r) {{ return {ASKS} ? {{a, c}} : null; }}",
    f"function find(list, x) {{ return list.find((e) => e === x); }} const L = ['a']; "
    f"function process(r) {{ return {ASKS} ? {{f: find(L, r.a)}} : null; }}",
    "let n = 0; function process(r) { n++; return {n}; }",
]

KEEP_SOMETHING = [
    f"const cache = new Map(); function process(r) {{ if (!cache.has(r.a)) cache.set(r.a, {ASKS}); return cache.get(r.a) ? r : null; }}",
    f"let last = false; function process(r) {{ last = {ASKS}; return r; }}",
    f"let n = 0; function process(r) {{ if ({ASKS}) n++; return {{n}}; }}",
    f"const cache = {{}}; function process(r) {{ cache[r.a] ??= {ASKS}; return cache[r.a] ? r : null; }}",
    f"const seen = []; function process(r) {{ if ({ASKS}) seen.push(r.a); return {{n: seen.length}}; }}",
    f"function process(r) {{ process.n = (process.n || 0) + {ASKS}; return {{n: process.n}}; }}",
    f"function process(r) {{ n = {ASKS}; return r; }}",
    f"function process(r) {{ globalThis.x = {ASKS}; return r; }}",
    f"const c = (() => {{ let n = 0; return () => ++n; }})(); function process(r) {{ if ({ASKS}) c(); return {{n: c()}}; }}",
    f"class C {{ static n = 0; static inc() {{ this.n++; }} }} function process(r) {{ if ({ASKS}) C.inc(); return {{n: C.n}}; }}",
    f"const s = {{n: 0, inc() {{ this.n++; }}}}; function process(r) {{ if ({ASKS}) s.inc(); return {{n: s.n}}; }}",
    f"const T = {{a: {{n: 0}}}}; function process(r) {{ const t = T.a; if ({ASKS}) t.n += 1; return {{n: t.n}}; }}",
    f"const T = [{{n: 0}}]; function process(r) {{ T.forEach((t) => {{ t.n += 1; }}); return {ASKS} ? {{n: T[0].n}} : null; }}",
    f"const T = {{a: {{n: 0}}}}; function bump(t) {{ t.n++; }} function process(r) {{ if ({ASKS}) bump(T.a); return {{n: T.a.n}}; }}",
    f"const T = {{a: {{n: 0}}}}; function get() {{ return T.a; }} function process(r) {{ if ({ASKS}) get().n++; return {{n: T.a.n}}; }}",
    f"const RE = /a/g; function process(r) {{ return RE.test(r.a) && {ASKS} ? r : null; }}",
    f"const it = [1, 2, 3].values(); function process(r) {{ return {ASKS} ? {{v: it.next().value}} : null; }}",
    f"function* g() {{ let n = 0; for (;;) yield n++; }} const it = g(); function process(r) {{ return {ASKS} ? {{v: it.next().value}} : null; }}",
    f"const cache = new Map(); const put = cache.set.bind(cache); function process(r) {{ put(r.a, {ASKS}); return r; }}",
    f"const cache = new Map(); function process(r) {{ const c = cache; c.set(r.a, {ASKS}); return r; }}",
    f"const holder = {{cache: new Map()}}; function process(r) {{ const {{cache}} = holder; cache.set(r.a, {ASKS}); return r; }}",
    f"const cache = new Map(); function process(r, c = cache) {{ c.set(r.a, {ASKS}); return r; }}",
    f"const cache = {{}}; function process(r) {{ Object.assign(cache, {{[r.a]: {ASKS}}}); return r; }}",
    f"const q = []; function process(r) {{ const out = {{...r, q}}; out.q.push({ASKS}); return out; }}",
    f"const c = {{n: 0}}; function process(r) {{ const d = r.x ?? c; d.n = {ASKS}; return r; }}",
    f"const c = {{n: 0}}; function process(r) {{ let d; d ||= c; d.n = {ASKS}; return r; }}",
    f"const q = []; function process(r) {{ [q[0]] = [{ASKS}]; return r; }}",
    f"var n; function process(r) {{ ({{n}} = {{n: {ASKS}}}); return r; }}",
    f"const f = function () {{}}; function process(r) {{ const g = f; g.n = {ASKS}; return r; }}",
    f"function process(r) {{ this.n = {ASKS}; return r; }}",
    f"let p; function process(r) {{ const keep = () => {{ p = r; }}; keep(); return {ASKS} ? r : null; }}",
    f"const T = new Map([['a', {{n: 0}}]]); function process(r) {{ for (const [, t] of T) t.n++; return {ASKS} ? r : null; }}",
    f"const ws = new WeakMap(), key = {{}}; function process(r) {{ ws.set(key, {ASKS}); return r; }}",
    f"const a = new Uint8Array(1); function process(r) {{ a[0]++; return {ASKS} ? {{n: a[0]}} : null; }}",
    f"function process(r) {{ return {ASKS} ? r : ",
]


MORE_THAT_KEEP = Path(__file__).with_name("kept_scripts.txt").read_text().splitlines()
"""One a line; `ASK` stands for a question. Ways by which something may live on, each of them hidden in another place."""


@pytest.mark.parametrize("script", KEEP_NOTHING)
def test_scripts_that_keep_nothing(script: str) -> None:
    assert not keeps_state(parse(script))


@pytest.mark.parametrize("script", KEEP_SOMETHING)
def test_scripts_that_may_keep_something(script: str) -> None:
    assert keeps_state(parse(script))


@pytest.mark.parametrize("script", MORE_THAT_KEEP)
def test_ways_to_keep_something(script: str) -> None:
    assert keeps_state(parse(script.replace("ASK", ASKS)))


@pytest.mark.parametrize(
    "script",
    [
        "flow;" + "x=>" * 100_000 + "1",
        "class K { m() { flow; " + "(this, " * 50_000 + "1" + ")" * 50_000 + " } }",
        "flow; function process(r) { return flow" + ".b()" * 100_000 + " }",
        "flow;" + "".join(f"function f{n}() {{ return f{n + 1}() }}" for n in range(10_000)) + "function process() {}",
        "flow;" + "(" * 500_000,
    ],
)
def test_hostile_scripts_take_bounded_time(script: str) -> None:
    began_s = time.process_time()
    keeps_state(parse(script))
    assert time.process_time() - began_s < 5


def test_a_large_script_is_analysed_quickly() -> None:
    step = """
      function step_{0}(record, options = {{}}) {{
        const {{ limit = 10, names = ['a', 'b'] }} = options;
        const parts = names.map((name) => `${{name}}:${{record[name] ?? 'none'}}`).filter(Boolean);
        if (parts.length > limit) return {{ ...record, parts, ok: flow.contains('w', [record.from, record.to]) }};
        return parts.length ? {{ note: parts.join(','), nested: {{ a: [1, 2, {{ b: {0} }}] }} }} : null;
      }}
    """
    script = "".join(step.format(number) for number in range(600)) + "const process = step_1;"
    assert len(script) > 250_000
    began_s = time.process_time()
    assert not keeps_state(parse(script))
    assert time.process_time() - began_s < 1.5  # 0.3 s on a free machine


def test_deeply_nested_scripts_are_taken_to_keep_something() -> None:
    script = "function process(r) { flow.contains('a', [r]); return " + "f(" * 20_000 + ")" * 20_000 + "; }"
    assert keeps_state(parse(script))
