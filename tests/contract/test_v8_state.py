"""Scripts with state on a real V8 get correct lookup results, and run once for each record."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import RedisUnavailable
from tests.support.plain_deno import plain_deno
from tests.support.sandbox import batch, lines
from tests.support.v8 import Bench

MEMBERS = [f"w{n}" for n in range(0, 40, 3)]
RECORDS = [{"id": n, "a": f"w{n * 7 % 23}", "b": f"W{n % 11}", "n": n} for n in range(300)]

ASK = "flow.contains('wallets', [r.a])"
SCRIPTS = {
    "map of answers": f"""
        const cache = new Map();
        function process(r) {{
          if (!cache.has(r.a)) cache.set(r.a, {ASK});
          return {{id: r.id, member: cache.get(r.a)}};
        }}""",
    "object of answers": f"const c = {{}}; function process(r) {{ c[r.a] ??= {ASK}; return c[r.a] ? r : null; }}",
    "last answer": f"""
        let last = null;
        function process(r) {{ const was = last; last = {ASK}; return {{id: r.id, was}}; }}""",
    "counter of hits": f"let hits = 0; function process(r) {{ if ({ASK}) hits++; return {{id: r.id, hits}}; }}",
    "counter of misses": f"""
        let misses = 0;
        function process(r) {{ if (!{ASK}) misses++; return {{id: r.id, misses}}; }}""",
    "counter of calls": f"let calls = 0; function process(r) {{ calls++; return {ASK} ? {{id: r.id, calls}} : null; }}",
    "first of each": f"""
        const seen = new Set();
        function process(r) {{
          if (!{ASK} || seen.has(r.a)) return null;
          seen.add(r.a);
          return r;
        }}""",
    "window": f"""
        const last = [];
        function process(r) {{
          last.push({ASK});
          if (last.length > 5) last.shift();
          return {{id: r.id, last: [...last]}};
        }}""",
    "sum by key": f"""
        const sums = {{}};
        const process = (r) => {{
          sums[r.a] = (sums[r.a] ?? 0) + ({ASK} ? r.n : -r.n);
          return {{id: r.id, sum: sums[r.a]}};
        }};""",
    "question that depends on state": """
        let next = 'w0';
        function process(r) {
          const found = flow.contains('wallets', [next]);
          next = found ? r.a : 'w' + (r.n % 5);
          return {id: r.id, found, next};
        }""",
    "chain of questions": """
        const depth = {};
        function process(r) {
          let n = 0;
          while (n < 40 && !flow.contains('wallets', ['w' + (r.n + n)])) n++;
          depth[n] = (depth[n] ?? 0) + 1;
          return {id: r.id, n, times: depth[n]};
        }""",
    "closure": f"""
        const counter = (() => {{ let n = 0; return (x) => x ? ++n : --n; }})();
        function process(r) {{ return {{id: r.id, n: counter({ASK})}}; }}""",
    "generator": f"""
        function* numbers() {{ let n = 0; for (;;) n += (yield n) ? 2 : 1; }}
        const it = numbers(); it.next();
        function process(r) {{ return {{id: r.id, n: it.next({ASK}).value}}; }}""",
    "static member": f"""
        class State {{ static hits = 0; static note(x) {{ if (x) this.hits++; }} }}
        function process(r) {{ State.note({ASK}); return {{id: r.id, hits: State.hits}}; }}""",
    "instance at top level": f"""
        class Tally {{ #n = 0; add(x) {{ this.#n += x ? 1 : 0; return this.#n; }} }}
        const tally = new Tally();
        function process(r) {{ return {{id: r.id, n: tally.add({ASK})}}; }}""",
    "method of an object": f"""
        const state = {{n: 0, add(x) {{ if (x) this.n++; }}}};
        function process(r) {{ state.add({ASK}); return {{id: r.id, n: state.n}}; }}""",
    "property of the function": f"""
        function process(r) {{ process.n = (process.n ?? 0) + ({ASK} ? 1 : 0); return {{id: r.id, n: process.n}}; }}""",
    "undeclared global": f"""
        function process(r) {{
          if (typeof total === 'undefined') total = 0;
          total += {ASK} ? 1 : 0;
          return {{id: r.id, total}};
        }}""",
    "globalThis": f"""
        function process(r) {{
          globalThis.hits = (globalThis.hits ?? 0) + ({ASK} ? 1 : 0);
          return {{id: r.id, hits: globalThis.hits}};
        }}""",
    "alias of an inner object": f"""
        const table = {{w0: {{n: 0}}, other: {{n: 0}}}};
        function process(r) {{
          const entry = table[r.a] ?? table.other;
          if ({ASK}) entry.n += 1;
          return {{id: r.id, n: entry.n}};
        }}""",
    "through a parameter": f"""
        const store = {{n: 0}};
        function bump(s, x) {{ if (x) s.n++; return s.n; }}
        function process(r) {{ return {{id: r.id, n: bump(store, {ASK})}}; }}""",
    "caught unknown dataset": f"""
        let errors = 0;
        function process(r) {{
          try {{ if (r.n % 50 === 7) null.x; }} catch {{ errors++; }}
          return {ASK} ? {{id: r.id, errors}} : null;
        }}""",
    "thrown between": f"""
        let before = 0;
        function process(r) {{
          before++;
          if ({ASK} && r.n % 9 === 0) throw new RangeError('no ' + before);
          return {{id: r.id, before}};
        }}""",
    "typed array": f"""
        const counts = new Uint32Array(4);
        function process(r) {{ counts[{ASK} ? 1 : 0]++; return {{id: r.id, counts: [...counts]}}; }}""",
    "sticky expression": f"""
        const RE = /w/g;
        function process(r) {{ return {{id: r.id, at: RE.test(r.a + r.a) ? RE.lastIndex : -1, member: {ASK}}}; }}""",
    "weak map": f"""
        const key = {{}}, notes = new WeakMap([[key, 0]]);
        function process(r) {{
          if ({ASK}) notes.set(key, notes.get(key) + 1);
          return {{id: r.id, n: notes.get(key)}};
        }}""",
    "several values and names": """
        const cache = new Map();
        function process(r) {
          const key = r.a + r.b;
          if (!cache.has(key)) cache.set(key, [flow.contains('wallets', [r.a, r.b]), flow.contains('tokens', [r.b])]);
          return {id: r.id, both: cache.get(key), size: cache.size};
        }""",
    "several outputs": f"""
        let n = 0;
        function process(r) {{
          if ({ASK}) n++;
          return Array.from({{length: n % 4}}, (_, i) => ({{id: r.id, n, i}}));
        }}""",
    "no values": """
        let n = 0;
        function process(r) { n += flow.contains('wallets', []) ? 1 : 2; return {id: r.id, n}; }""",
    "sort of the state": f"""
        const top = [];
        function process(r) {{
          if ({ASK}) {{ top.push(r.n % 17); top.sort((x, y) => y - x); top.length = Math.min(3, top.length); }}
          return {{id: r.id, top: [...top]}};
        }}""",
    "module pattern": f"""
        const box = {{}};
        (function () {{ let n = 0; box.hit = (x) => {{ n += x ? 1 : 0; return n; }}; }})();
        function process(r) {{ return {{id: r.id, n: box.hit({ASK})}}; }}""",
}


def run_script(bench: Bench, script: str, sizes: list[int]) -> list[list[str]]:
    """Run batches of these sizes. Return for each record its outputs, or the name of its error."""
    found: list[list[str]] = [[] for _ in RECORDS]
    first = 0
    transform = bench.transform(script)
    for size in sizes:
        rows = RECORDS[first : first + size]
        outcome = transform.start(batch(lines(*rows))).result()
        for value in outcome.output.values:
            assert value is not None
            found[json.loads(value)["id"]].append(value.decode())
        for failure in outcome.failures:
            found[first + failure.row] = [failure.error]
        first += size
    return found


def split(seed: int) -> list[int]:
    """Split all records into batches of random sizes."""
    sizes, left, rng = list[int](), len(RECORDS), random.Random(seed)
    while left:
        sizes.append(min(left, rng.choice([1, 2, 3, 7, 50, 120])))
        left -= sizes[-1]
    return sizes


@pytest.mark.parametrize("name", SCRIPTS)
def test_results_equal_those_of_a_plain_interpreter(bench: Bench, tmp_path: Path, name: str) -> None:
    members = {"wallets": MEMBERS, "tokens": ["w1", "w4"]}
    for dataset, values in members.items():
        bench.fill(dataset, values)
    assert run_script(bench, SCRIPTS[name], split(len(name))) == plain_deno(SCRIPTS[name], RECORDS, members, tmp_path)


def test_valkey_fails_during_a_batch(bench: Bench) -> None:
    """No assumed result is kept, and no record runs twice on the same state."""
    script = """
      const cache = new Map();
      let calls = 0;
      function process(r) {
        calls++;
        let n = 0;
        while (n < 3 && !flow.contains('wallets', ['x' + r.id + '-' + n + '-' + cache.size])) n++;
        cache.set(r.id, n);
        return {id: r.id, n, calls, size: cache.size};
      }
    """
    bench.fill("wallets", [])
    pending = bench.transform(script).start(batch(lines(*RECORDS[:50])))
    bench.sets.away = True
    for _ in range(3):
        with pytest.raises(RedisUnavailable):
            pending.result()
    bench.sets.away = False
    outputs: list[Any] = [json.loads(value or b"") for value in pending.result().output.values]
    assert [output["calls"] for output in outputs] == [output["size"] for output in outputs] == list(range(1, 51))


def test_a_timeout_resets_the_state(bench: Bench) -> None:
    script = f"let n = 0; function process(r) {{ n++; if (r.id === 5) for (;;); return {{id: r.id, n, m: {ASK}}}; }}"
    bench.fill("wallets", MEMBERS)
    outcome = bench.transform(script).start(batch(lines(*RECORDS[:10]))).result()
    assert [(failure.row, failure.error) for failure in outcome.failures] == [(5, "Timeout")]
    outputs = [json.loads(value or b"") for value in outcome.output.values]
    assert [(output["id"], output["n"]) for output in outputs[:5]] == [(n, n + 1) for n in range(5)]
    assert [output["n"] for output in outputs[5:]] == list(range(outputs[5]["n"], outputs[5]["n"] + 4))
    assert [output["m"] for output in outputs] == [RECORDS[output["id"]]["a"] in MEMBERS for output in outputs]


def test_the_death_of_the_process_loses_the_state_and_no_record(bench: Bench) -> None:
    script = f"""
      let n = 0;
      function process(r) {{
        n++;
        if (r.id === 7) 'a'.repeat(1 << 24).replace(/a/g, '$&$&$&$&$&$&$&$&');
        return {{id: r.id, n, m: {ASK}}};
      }}
    """
    bench.fill("wallets", MEMBERS)
    outcome = bench.transform(script).start(batch(lines(*RECORDS[:20]))).result()
    assert [failure.row for failure in outcome.failures] == [7]
    outputs = [json.loads(value or b"") for value in outcome.output.values]
    assert [output["id"] for output in outputs] == [n for n in range(20) if n != 7]
    assert [output["m"] for output in outputs] == [RECORDS[output["id"]]["a"] in MEMBERS for output in outputs]


def test_few_lookups_are_sent_singly(bench: Bench) -> None:
    """A dry run finds the lookups of a batch."""
    bench.fill("wallets", MEMBERS)
    run_script(bench, SCRIPTS["counter of hits"], [100, 100, 100])
    assert len(bench.sets.asked) <= 6


def test_dependent_lookups_of_scripts_without_state(bench: Bench) -> None:
    script = """
      function process(r) {
        let at = 'd0', n = 0;
        while (flow.contains('wallets', [at])) at = 'd' + ++n;
        return {id: r.id, n};
      }
    """
    bench.fill("wallets", [f"d{n}" for n in range(60)])
    outcome = bench.transform(script).start(batch(lines(*RECORDS[:20]))).result()
    assert [*outcome.output.values] == [b'{"id":%d,"n":60}' % n for n in range(20)]


def counted(bench: Bench, script: str, sizes: list[int]) -> list[int]:
    """Run batches of these sizes. Return the member `calls` of all outputs."""
    results: list[int] = []
    transform = bench.transform(script)
    for size in sizes:
        outcome = transform.start(batch(lines(*RECORDS[:size]))).result()
        assert outcome.failures == []
        results += [json.loads(value or b"")["calls"] for value in outcome.output.values]
    return results


def test_a_table_that_is_built_at_the_first_record_rejects_no_record(bench: Bench) -> None:
    """A record is rejected only if it is slow every time.

    Building the object takes longer than a record may take.
    """
    script = f"""
      let table = null, calls = 0;
      function make() {{ let sum = 0; for (let i = 0; i < 4.5e6; i++) sum += i % 7; return new Map([['sum', sum]]); }}
      function process(r) {{
        table ??= make();
        calls++;
        return {{calls, sum: table.get('sum'), m: {ASK}}};
      }}
    """
    assert counted(bench, script, [3, 40, 40]) == list(range(1, 84))


def test_slow_records_within_their_time_limit_keep_the_state(bench: Bench) -> None:
    """A segment ends between two records when its time has elapsed."""
    script = f"""
      let calls = 0;
      function process(r) {{
        let sum = 0;
        for (let i = 0; i < 1.2e6; i++) sum += i % 7;
        calls++;
        return {{calls, sum, m: {ASK}}};
      }}
    """
    assert counted(bench, script, [20, 20]) == list(range(1, 41))


def test_a_slow_record_is_rejected_without_a_loss_of_state(bench: Bench) -> None:
    script = f"""
      let calls = 0;
      function process(r) {{
        calls++;
        if (r.id === 4) for (let i = 0; i < 1e7; i++);
        return {{id: r.id, calls, m: {ASK}}};
      }}
    """
    outcome = bench.transform(script).start(batch(lines(*RECORDS[:8]))).result()
    assert [(failure.row, failure.error) for failure in outcome.failures] == [(4, "Timeout")]
    assert [json.loads(value or b"")["calls"] for value in outcome.output.values] == [1, 2, 3, 4, 6, 7, 8]


@pytest.mark.long
def test_a_dry_run_of_a_heavy_top_level_does_no_harm(bench: Bench) -> None:
    script = f"""
      let sum = 0, calls = 0;
      for (let i = 0; i < 4e6; i++) sum += i % 7;
      function process(r) {{ calls++; return {{calls, sum, m: {ASK}}}; }}
    """
    assert counted(bench, script, [40, 40, 40]) == list(range(1, 121))
