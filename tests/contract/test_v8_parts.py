"""Batches are processed in parts, and records run again with earlier lookup results."""

import json
from typing import Any

import pytest

from headwater.sandbox import script_batch
from tests.support.sandbox import batch, lines
from tests.support.v8 import Bench

MANY = 700


def outputs(bench: Bench, script: str, records: list[dict[str, Any]]) -> list[Any]:
    kept, failures = bench.run(script, lines(*records))
    assert failures == []
    return [json.loads(value or b"") for value in kept]


class TestParts:
    def test_outputs_errors_and_logs_keep_their_records(self, bench: Bench) -> None:
        script = """
          function process(d) {
            if (d.n % 97 === 5) throw new RangeError('r' + d.n);
            if (d.n % 50 === 0) console.log('l' + d.n);
            return d.n % 7 ? { n: d.n, x: d.x.length } : d.n % 2 ? null : [{ n: d.n }, { é: d.x }];
          }
        """
        records = [{"n": n, "x": "é" * (n * 13 % 900)} for n in range(MANY)]
        outcome = bench.transform(script).start(batch(lines(*records))).result()
        failed = [n for n in range(MANY) if n % 97 == 5]
        expected = [
            result
            for n in range(MANY)
            if n not in failed
            for result in (
                [{"n": n, "x": n * 13 % 900}] if n % 7 else [] if n % 2 else [{"n": n}, {"é": "é" * (n * 13 % 900)}]
            )
        ]
        assert [json.loads(value or b"") for value in outcome.output.values] == expected
        assert [(failure.row, failure.message) for failure in outcome.failures] == [(n, f"r{n}") for n in failed]
        assert outcome.logs == [f"l{n}" for n in range(0, MANY, 50) if n not in failed]

    def test_time_slices_that_end_immediately(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """This happens if the process is stopped when it starts a batch.

        No record is lost or repeated.
        """
        monkeypatch.setattr(script_batch, "SEGMENT_LIMIT_MS", 1)
        script = "function process(d) { return { n: d.n, m: flow.contains('wallets', ['w' + d.n]) } }"
        transform = bench.transform(script)
        bench.fill("wallets", [f"w{n}" for n in range(0, 60_000, 3)])
        for first in range(0, 60_000, 2_000):
            records = [{"n": n, "long": 2**60} for n in range(first, first + 2_000)]
            outcome = transform.start(batch(lines(*records))).result()
            assert outcome.failures == []
            results = [json.loads(value or b"") for value in outcome.output.values]
            assert results == [{"n": n, "m": n % 3 == 0} for n in range(first, first + 2_000)]

    def test_records_of_many_sizes(self, bench: Bench) -> None:
        sizes = [0, 1, 65_000, 65_534, 65_535, 65_536, 65_537, 200_000, 3, 500_000, 2]
        records = [{"n": n, "x": "x" * size} for n, size in enumerate(sizes)]
        assert outputs(bench, "function process(d) { return d }", records) == records

    def test_large_outputs_of_small_records(self, bench: Bench) -> None:
        script = "function process(d) { return { n: d.n, x: 'ü'.repeat(200000) } }"
        results = outputs(bench, script, [{"n": n} for n in range(100)])
        assert [one["n"] for one in results] == [*range(100)]
        assert {one["x"] for one in results} == {"ü" * 200000}

    @pytest.mark.parametrize("first", [0, 1, 63, 64, 65, 130, MANY - 1])
    def test_batches_with_late_lookups_wait_beside_others(self, bench: Bench, first: int) -> None:
        script = """
          function process(d) {
            return { n: d.n, b: d.b, m: d.n < d.first || flow.contains('wallets', ['w' + d.n]), r: Math.random() };
          }
        """
        bench.fill("wallets", [f"w{n}" for n in range(0, MANY, 9)])
        transform = bench.transform(script)
        batches = [lines(*({"n": n, "b": b, "first": first} for n in range(MANY))) for b in range(4)]
        pending = [transform.start(batch(values)) for values in batches]
        results = [[json.loads(value or b"") for value in one.result().output.values] for one in pending]
        for b, records in enumerate(results):
            assert [(one["n"], one["b"]) for one in records] == [(n, b) for n in range(MANY)]
            assert [one["m"] for one in records] == [n < first or n % 9 == 0 for n in range(MANY)]
            assert [one["r"] for one in records] == [one["r"] for one in results[0]]

    @pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 192])
    @pytest.mark.parametrize("asks_from", [0, 1, 64, 127])
    def test_batches_of_whole_parts(self, bench: Bench, count: int, asks_from: int) -> None:
        script = """
          function process(d) { return { n: d.n, m: d.n >= d.from && flow.contains('wallets', ['w' + d.n]) } }
        """
        bench.fill("wallets", [f"w{n}" for n in range(0, count, 3)])
        results = outputs(bench, script, [{"n": n, "from": asks_from} for n in range(count)])
        assert results == [{"n": n, "m": n >= asks_from and n % 3 == 0} for n in range(count)]

    def test_many_records_that_are_a_little_slow(self, bench: Bench) -> None:
        script = "function process(d) { for (let i = 0; i < 300000; i++); console.log(d.n); return d }"
        records = [{"n": n} for n in range(40)]
        outcome = bench.transform(script).start(batch(lines(*records))).result()
        assert ([*outcome.output.values], outcome.failures) == (lines(*records), [])
        assert outcome.logs == [str(n) for n in range(40)]


class TestAnswers:
    def test_each_record_gets_its_own_results_if_values_repeat(self, bench: Bench) -> None:
        script = """
          function process(d) {
            const has = flow.contains, all = has('wallets', ['no', 'no', 'const', d.v]), one = has('wallets', [d.v]);
            return [all, one, has('tokens', ['no', d.v]), has('wallets', ['const'])].map((m) => ({ m }));
          }
        """
        bench.fill("wallets", ["a"])
        bench.fill("tokens", ["b"])
        kept, _ = bench.run(script, lines(*({"v": "abc"[n % 3]} for n in range(30))))
        found = [json.loads(value or b"")["m"] for value in kept]
        assert found == [True, True, False, False, False, False, True, False, *[False] * 4] * 10

    def test_a_record_that_looks_up_in_another_order_when_it_runs_again(self, bench: Bench) -> None:
        script = """
          function process(d) {
            const has = (...values) => flow.contains('wallets', values);
            if (!has(d.a)) return { path: [has(d.b), has(d.c), has(d.b, d.c)] };
            return { path: [has(d.c), has(d.d), has(d.b), has(d.c, d.b)] };
          }
        """
        bench.fill("wallets", ["a", "c"])
        record = {"a": "a", "b": "b", "c": "c", "d": "d"}
        results = outputs(bench, script, [record, {**record, "a": "x"}, record])
        right, left = {"path": [True, False, False, True]}, {"path": [False, True, True]}
        assert results == [right, left, right]

    def test_a_script_with_nondeterministic_lookups_runs_once(self, bench: Bench) -> None:
        script = """
          let runs = 0;
          function process(d) { return { n: d.n, m: flow.contains('wallets', [runs++ < 200 ? 'yes' : 'no' + d.n]) } }
        """
        bench.fill("wallets", ["yes"])
        assert outputs(bench, script, [{"n": n} for n in range(200)]) == [{"n": n, "m": True} for n in range(200)]

    def test_nested_lookups(self, bench: Bench) -> None:
        script = """
          function process(d) {
            const values = new Proxy(['no', d.v, 'x'], { get(target, key) {
              if (key === '2') flow.contains('tokens', ['t']) && found.push('token');
              return target[key];
            } });
            const found = [];
            const m = flow.contains('wallets', values);
            return { m, found };
          }
        """
        bench.fill("wallets", ["yes"])
        bench.fill("tokens", ["t"])
        results = outputs(bench, script, [{"v": "yes"}, {"v": "no"}] * 3)
        assert results[1::2] == [{"m": False, "found": ["token"]}] * 3
        assert [one["m"] for one in results[::2]] == [True] * 3

    def test_a_name_without_values_is_resolved_too(self, bench: Bench) -> None:
        script = "function process(d) { return { m: flow.contains(d.name, d.v) } }"
        records = [{"name": name, "v": v} for name in ("none", "wallets") for v in ([], [None, ""], ["0xaa"], [])]
        kept, failures = bench.run(script, lines(*records))
        assert [json.loads(value or b"")["m"] for value in kept] == [False, False, True, False]
        assert [(failure.row, failure.error) for failure in failures] == [(row, "UnknownDataset") for row in range(4)]

    def test_more_values_than_one_query_may_have(self, bench: Bench) -> None:
        script = """
          function process(d) {
            const values = [...Array(900).keys()].map((i) => 'x'.repeat(500) + i);
            return { n: d.n, m: flow.contains('wallets', [...values, d.v]) };
          }
        """
        bench.fill("wallets", ["v3", "v20"])
        results = outputs(bench, script, [{"n": n, "v": f"v{n}"} for n in range(25)])
        assert results == [{"n": n, "m": n in (3, 20)} for n in range(25)]


class TestErrorsOfTheHarness:
    def test_the_clock_throws_errors_of_the_scripts_realm(self, bench: Bench) -> None:
        script = """
          function process(d) {
            const kinds = new Set();
            const seen = (e) => kinds.add(e.constructor === RangeError);
            const deep = () => { try { deep() } catch (e) { seen(e) } look(); };
            const look = () => { try { Date.now(); Math.random() } catch (e) { seen(e) } };
            deep();
            return { kinds: [...kinds] };
          }
        """
        assert outputs(bench, script, [{}]) == [{"kinds": [True]}]

    @pytest.mark.parametrize(
        "poison",
        [
            "String.prototype[Symbol.split] = () => ['x']",
            "Array.prototype.join = Array.prototype.indexOf = Array.prototype.fill = () => 'x'",
            "String.prototype.endsWith = String.prototype.lastIndexOf = () => 1; globalThis.BigInt = () => 7n",
            "Object.getPrototypeOf(Uint8Array.prototype).indexOf = () => 0; globalThis.Uint8Array = class {}",
            "Array.prototype.constructor = { [Symbol.species]: class { constructor() { return ['x'] } } }",
            "Array.prototype[Symbol.iterator] = function* () {}",
            "String.prototype.toJSON = () => 'x'",
            "Object.defineProperty(Object.prototype, 'raw', { value: 1e20 })",
            "Object.defineProperty(Object.prototype, 'raw', { set(value) { globalThis.seen = value } })",
            "for (const k of ['row', 'asked', 'key']) Object.defineProperty(Object.prototype, k, { set() {} })",
        ],
    )
    def test_built_ins_that_a_script_replaced_at_load(self, bench: Bench, poison: str) -> None:
        bench.fill("wallets", ["a7"])
        script = f"{poison};\nfunction process(d) {{ d.m = flow.contains('wallets', ['a' + d.n]); return d }}"
        long = "12345678901234567890123"
        records = [b'{"n":%d,"raw":%b,"o":[{"in":%b}]}' % (n, long.encode(), long.encode()) for n in range(80)]
        records[9] = b'{"n":9,"o":{"raw":%b}}' % long.encode()
        kept, failures = bench.run(script, records)
        assert failures == []
        assert kept == [b'%b,"m":%b}' % (r[:-1], b"true" if n == 7 else b"false") for n, r in enumerate(records)]
