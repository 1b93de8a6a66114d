"""The behaviour of v8 transforms on a real V8, as the author of a pipeline sees it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import RedisUnavailable
from headwater.model.outputs import output_index
from headwater.model.record import Failure
from headwater.model.transforms import MAX_TRANSFORMS
from headwater.model.transforms.v8 import V8Transform
from headwater.model.value_sets import dataset_set_id
from headwater.sandbox import Sandbox
from headwater.stores.redis.client import connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.transforms.base import PendingBatch, TransformContext
from headwater.transforms.v8 import build
from tests.examples import examples
from tests.support.columns import plain
from tests.support.sandbox import TIME_MS, batch, lines
from tests.support.v8 import Bench
from tests.support.valkey import ValkeyServer


class TestOutputs:
    def test_outputs_keep_key_timestamp_partition_and_offset(self, bench: Bench) -> None:
        given_ = batch(lines({"n": 0}, {"n": 1}, {"n": 2}))
        kept = (
            bench.transform("function process(d) { return d.n === 1 ? null : { ...d, seen: true } }")
            .start(given_)
            .result()
            .output
        )
        assert plain(kept) == [
            (b'{"n":0,"seen":true}', b"k0", TIME_MS, 0, 1000, 0),
            (b'{"n":2,"seen":true}', b"k2", TIME_MS + 2, 0, 1002, 0),
        ]

    @pytest.mark.parametrize(
        "name", ["function process", "const process = function", "function transform", "let transform = function"]
    )
    def test_process_or_transform(self, bench: Bench, name: str) -> None:
        assert bench.run(f"{name}(d) {{ return {{ n: d.n + 1 }} }}", lines({"n": 1}))[0] == [b'{"n":2}']

    @pytest.mark.parametrize("nothing", ["null", "undefined", "", "[]", "[null, undefined, , null]"])
    def test_nothing_drops_the_record(self, bench: Bench, nothing: str) -> None:
        assert bench.run(f"function process(d) {{ return {nothing} }}", lines({}, {})) == ([], [])

    def test_an_array_is_several_records(self, bench: Bench) -> None:
        script = "function process(d) { return Array.from({ length: d.n }, (_, i) => ({ n: d.n, i })) }"
        kept = bench.transform(script).start(batch(lines({"n": 2}, {"n": 0}, {"n": 10}))).result().output
        assert kept.values[:3] == [b'{"n":2,"i":0}', b'{"n":2,"i":1}', b'{"n":10,"i":0}']
        assert kept.offsets.tolist() == [1000] * 2 + [1002] * 10
        assert kept.indexes.tolist() == [0, 1, *range(10)]

    def test_outputs_of_outputs_have_unique_indexes(self, bench: Bench) -> None:
        first = bench.transform("function process(d) { return [d, d, d] }").start(batch(lines({}))).result().output
        twice = bench.transform("function process(d) { return [{ a: 1 }, { a: 2 }] }").start(first).result().output
        assert twice.indexes.tolist() == [0, 1, 10, 11, 20, 21]
        once = bench.transform("function process(d) { return d }").start(first).result().output
        assert once.indexes.tolist() == [0, 10, 20]
        assert first.indexes.tolist() == [0, 1, 2]

    def test_output_indexes_are_unique_after_any_number_of_scripts(self, bench: Bench) -> None:
        fork = bench.transform("function process(d) { return [d, d] }")
        same, outputs = bench.transform("function process(d) { return d }"), batch(lines({}, {}))
        for number in range(MAX_TRANSFORMS):
            outputs = (fork if number % 10 == 0 else same).start(outputs).result().output
        names = list(zip(outputs.offsets, outputs.indexes, strict=True))
        assert len({*names}) == len(names) == 2 * 2**5

    def test_a_byte_order_mark_is_invalid_json_anywhere(self, bench: Bench) -> None:
        kept, failures = bench.run(
            "function process(d) { return d }", ["\ufeff{}".encode(), b"{}", "\ufeff{}".encode()]
        )
        assert kept == [b"{}"]
        assert [(failure.row, failure.error) for failure in failures] == [(0, "InvalidJSON"), (2, "InvalidJSON")]

    @pytest.mark.parametrize(
        "returned",
        ["'text'", "7", "true", "() => 1", "Promise.resolve(d)", "new Array(1001).fill({})", "[1]", "[[{}]]"],
    )
    def test_anything_else_is_an_error(self, bench: Bench, returned: str) -> None:
        _, failures = bench.run(f"function process(d) {{ return {returned} }}", lines({}))
        assert [failure.error for failure in failures] == ["InvalidOutput"]

    def test_up_to_a_thousand_records_without_the_members_that_are_null(self, bench: Bench) -> None:
        script = "function process(d) { return Array.from({ length: d.n * 2 }, (_, i) => i % 2 ? { i } : null) }"
        outcome = bench.transform(script).start(batch(lines({"n": 1000}, {"n": 1001}, {"n": 12}))).result()
        assert [failure.row for failure in outcome.failures] == [1]
        assert outcome.failures[0].message == "process returned more than 1,000 records for one record"
        results = [json.loads(value or b"")["i"] for value in outcome.output.values]
        assert results == [*range(1, 2000, 2), *range(1, 24, 2)]
        assert outcome.output.indexes.tolist() == [output_index(0, place) for n in (1000, 12) for place in range(n)]

    def test_eight_million_bytes_for_one_record_and_no_more(self, bench: Bench) -> None:
        script = """const texts = { x: 'x'.repeat(499_992), é: 'é'.repeat(249_996) };
        function process({ c, more }) {
          return Array.from({ length: 16 }, (_, i) => ({ s: i ? texts[c] : texts[c] + c.repeat(more) }));
        }"""
        records = [{"c": c, "more": more} for c in ("x", "é") for more in (0, 1)]
        kept, failures = bench.run(script, lines(*records))
        assert [(failure.row, failure.error) for failure in failures] == [(1, "OutputTooLarge"), (3, "OutputTooLarge")]
        assert [len(value or b"") for value in kept] == [500_000] * 32
        assert {failure.message for failure in failures} == {
            "the returned records are larger than 8,000,000 bytes together"
        }

    def test_many_records_with_many_large_outputs(self, bench: Bench) -> None:
        script = """const text = 'x'.repeat(7900);
        function process(d) {
          return Array.from({ length: 1000 }, (_, i) => ({ n: d.n, i, s: text }));
        }"""
        kept, failures = bench.run(script, lines(*({"n": n} for n in range(6))))
        assert failures == []
        assert [(one["n"], one["i"]) for one in (json.loads(value or b"") for value in kept)] == [
            (n, i) for n in range(6) for i in range(1000)
        ]

    @pytest.mark.parametrize(
        ("returned", "what"),
        [
            ("true", "a boolean"), ("'text'", "a string"), ("7", "a number"), ("() => d", "a function"),
            ("1n", "a bigint"),
            ("new Map([[1, 2]])", "a Map"), ("new Set([1])", "a Set"), ("[new Set()]", "a Set"),
            ("new Uint8Array(3)", "a Uint8Array"), ("[d, new Float64Array(2)]", "a Float64Array"),
            ("new Int8Array()", "an Int8Array"), ("new Error('e')", "an Error"), ("[[d]]", "an array in an array"),
            ("(async () => d)()", "a Promise, for which nothing waits"),
            ("({ toJSON: () => 'text' })", "an object whose JSON is not an object"),
        ],
    )  # fmt: skip
    def test_an_error_says_what_to_return(self, bench: Bench, returned: str, what: str) -> None:
        _, (failure,) = bench.run(f"function process(d) {{ return {returned} }}", lines({"a": 1}))
        assert (failure.error, failure.message) == (
            "InvalidOutput",
            f"process returned {what}: return the record to keep it, null to drop it, or an array of records",
        )

    def test_an_object_with_places_is_a_record(self, bench: Bench) -> None:
        script = """function process(d) {
          return [{ 0: 1 }, { 0: 2, length: 1 }, Object.assign(Object.create(null), { 0: 3 })];
        }"""
        assert bench.run(script, lines({})) == ([b'{"0":1}', b'{"0":2,"length":1}', b'{"0":3}'], [])

    @pytest.mark.parametrize("returned", ["new Map([[1, 2]])", "new Error('e')", "/x/", "(function* () { yield d })()"])
    def test_values_that_json_cannot_represent_are_an_error(self, bench: Bench, returned: str) -> None:
        _, failures = bench.run(f"function process(d) {{ return [d, {returned}] }}", lines({"a": 1}))
        assert [failure.error for failure in failures] == ["InvalidOutput"]

    def test_objects_without_members_are_records(self, bench: Bench) -> None:
        script = "class Empty {} function process(d) { return [{}, new Empty(), Object.create(null)] }"
        assert bench.run(script, lines({})) == ([b"{}"] * 3, [])

    @pytest.mark.parametrize(("thrown", "message"), [("{ a: 1 }", '{"a":1}'), ("new Error()", ""), ("'text'", "text")])
    def test_thrown_values_are_reported(self, bench: Bench, thrown: str, message: str) -> None:
        _, (failure,) = bench.run(f"function process(d) {{ throw {thrown} }}", lines({}))
        assert (failure.error, failure.message) == ("Error", message)

    def test_a_million_bytes_and_no_more(self, bench: Bench) -> None:
        script = "function process(d) { return { s: d.c.repeat(d.n) } }"
        values = lines(*({"c": c, "n": n} for c, n in [("x", 999_992), ("x", 999_993), ("é", 499_996), ("é", 499_997)]))
        kept, failures = bench.run(script, values)
        assert [len(value or b"") for value in kept] == [1_000_000, 1_000_000]
        assert [(failure.row, failure.error) for failure in failures] == [(1, "OutputTooLarge"), (3, "OutputTooLarge")]

    def test_a_batch_whose_outputs_exceed_its_limit_goes_through_in_parts(self, bench: Bench) -> None:
        script = "function process(d) { return { n: d.n, s: 'x'.repeat(900000) } }"
        kept, failures = bench.run(script, lines(*({"n": n} for n in range(60))))
        assert failures == []
        assert [json.loads(value or b"")["n"] for value in kept] == [*range(60)]


class TestInputs:
    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (None, "InvalidJSON"), (b"", "InvalidJSON"), (b" ", "InvalidJSON"), (b"{", "InvalidJSON"),
            (b"{}{}", "InvalidJSON"),
            (b'{"a":\xff}', "InvalidJSON"), (b'"\xed\xa0\x80"', "InvalidJSON"), (b'{"a":"x\ny"}', "InvalidJSON"),
            (b"\xef\xbb\xbf{}", "InvalidJSON"), (b"[]", "NotAnObject"), (b'"s"', "NotAnObject"), (b"1", "NotAnObject"),
            (b"null", "NotAnObject"), (b"\n[\n]\n", "NotAnObject"),
        ],
    )  # fmt: skip
    def test_scripts_see_only_objects(self, bench: Bench, value: bytes | None, error: str) -> None:
        kept, failures = bench.run("function process(d) { return d }", [b'{"a":1}', value, b'{"a":2}'])
        assert kept == [b'{"a":1}', b'{"a":2}']
        assert [(failure.row, failure.error, failure.component) for failure in failures] == [(1, error, "u1")]

    def test_raw_newlines_between_tokens(self, bench: Bench) -> None:
        kept, _ = bench.run("function process(d) { return d }", [b'{\n "a":\r\n [1,\n2]\n}\n', b'{"b":"\\n"}'])
        assert kept == [b'{"a":[1,2]}', b'{"b":"\\n"}']

    def test_all_kinds_of_strings(self, bench: Bench) -> None:
        value = json.dumps({"é": "\u2028\u2029 😀 \x7f", "__proto__": {"a": 1}, "constructor": 2}, ensure_ascii=False)
        assert bench.run("function process(d) { return d }", [value.encode()])[0] == [
            value.replace(": ", ":").replace(", ", ",").encode()
        ]


class TestErrors:
    def test_class_message_line_and_column(self, bench: Bench) -> None:
        script = "function process(d) {\n  const x = d.a;\n  return x.y.z;\n}"
        _, failures = bench.run(script, lines({"a": {}}))
        assert failures == [Failure(0, "TypeError", "Cannot read properties of undefined (reading 'z')", "u1", 3, 14)]

    @pytest.mark.parametrize(
        "body", ["return { half: d.a / 2 }", "return { half: Math.max(d.a, 1) }", "return { half: +d.a }"]
    )
    def test_a_bigint_among_numbers_says_how_to_convert(self, bench: Bench, body: str) -> None:
        _, (failure,) = bench.run(f"function process(d) {{ {body} }}", lines({"a": 2**70}))
        assert (failure.error, failure.line) == ("TypeError", 1)
        assert failure.message.startswith("Cannot ")
        assert failure.message.endswith(
            ". Integers beyond 2^53 - 1 come as BigInt: convert with Number(x), or with BigInt(x) on both sides"
        )

    def test_own_classes_and_long_messages(self, bench: Bench) -> None:
        script = "class Odd extends Error { name = 'Odd' }; function process(d) { throw new Odd('é'.repeat(5000)) }"
        _, (failure,) = bench.run(script, lines({}))
        assert (failure.error, failure.message) == ("Odd", "é" * 512)

    def test_failures_are_in_the_order_of_their_rows(self, bench: Bench) -> None:
        script = "function process(d) { if (d.loop) for (;;); throw new Error(String(d.n)) }"
        _, failures = bench.run(script, [None, *lines({"n": 1}, {"n": 2, "loop": 1}, {"n": 3})])
        assert [(failure.row, failure.error) for failure in failures] == [
            (0, "InvalidJSON"), (1, "Error"), (2, "Timeout"), (3, "Error"),
        ]  # fmt: skip


class TestConsole:
    def test_log_lines_are_part_of_the_outcome(self, bench: Bench) -> None:
        script = """
          function process(d) {
            console.log('n is', d.n, { a: [1n] }, null, undefined);
            console.error(new TypeError('t'));
            return d;
          }
        """
        outcome = bench.transform(script).start(batch(lines({"n": 1}, {"n": 2}))).result()
        printed_line, error = 'n is {} {{"a":[1n]}} null undefined', "TypeError: t\n    at process (script.js:4:27)"
        assert outcome.logs == [printed_line.format(1), error, printed_line.format(2), error]

    def test_a_wrong_guess_prints_nothing(self, bench: Bench) -> None:
        script = "function process(d) { console.log(flow.contains('wallets', [d.v])); return d }"
        assert bench.transform(script).start(batch(lines({"v": "0xaa"}, {"v": "no"}))).result().logs == [
            "true",
            "false",
        ]

    def test_lines_are_bounded(self, bench: Bench) -> None:
        script = "function process(d) { for (let i = 0; i < 100; i++) console.log('x'.repeat(5000)); return d }"
        logs = bench.transform(script).start(batch(lines(*({} for _ in range(20))))).result().logs
        assert len(logs) == 200
        assert {len(line) for line in logs} == {1000}

    def test_values_that_cannot_be_printed(self, bench: Bench) -> None:
        script = (
            "function process(d) { const c = {}; c.c = c; console.log(c, Symbol('s'), () => 1, 'a\\nb'); return null }"
        )
        logs = bench.transform(script).start(batch(lines({}))).result().logs
        assert logs == ['{"c":[Circular]} Symbol(s) [Function] a\nb']


class TestContains:
    def test_any_of_the_values_in_any_case(self, bench: Bench) -> None:
        script = "function process(d) { return { m: flow.contains('wallets', d.v) } }"
        asked: list[list[Any]] = [["0xAA"], ["no", "0xBB"], ["no", "none"], [], [None, "0xaa"], ["0xaa", "no"]]
        kept, _ = bench.run(script, lines(*({"v": values} for values in asked)))
        assert [json.loads(value or b"")["m"] for value in kept] == [True, True, False, False, True, True]

    def test_one_look_up_per_dataset_and_batch(self, bench: Bench) -> None:
        script = """
          function process(d) {
            return { w: flow.contains('wallets', [d.a]), t: flow.contains('tokens', [d.a, d.b]) };
          }
        """
        bench.run(script, lines(*({"a": f"a{n % 50}", "b": "b"} for n in range(500))))
        assert sum(bench.sets.asked) == 50 + 51
        # There are two queries; a process that was stalled for longer than its time slice sends another one.
        assert len(bench.sets.asked) <= 6

    def test_an_unknown_dataset_is_a_record_error(self, bench: Bench) -> None:
        script = "function process(d) { return { m: flow.contains(d.name, ['0xaa']) } }"
        kept, failures = bench.run(script, lines({"name": "wallets"}, {"name": "secret"}, {"name": "none"}))
        assert kept == [b'{"m":true}']
        assert [(failure.row, failure.error) for failure in failures] == [(1, "UnknownDataset"), (2, "UnknownDataset")]

    def test_errors_and_loops_of_a_wrong_guess_are_discarded(self, bench: Bench) -> None:
        script = """
          function process(d) {
            if (d.how === 'throw' && !flow.contains('wallets', [d.v])) throw new Error('guess');
            if (d.how === 'loop') while (!flow.contains('wallets', [d.v]));
            if (d.how === 'catch') for (;;) try { if (flow.contains('wallets', [d.v])) break } catch {}
            return d;
          }
        """
        values = lines(*({"how": how, "v": "0xaa"} for how in ("throw", "loop", "catch")))
        assert bench.run(script, values) == (values, [])

    def test_a_script_that_catches_the_stop_sends_a_bounded_number_of_queries(self, bench: Bench) -> None:
        script = "function process(d) { for (;;) try { flow.contains('wallets', ['' + Math.random()]) } catch {} }"
        _, (failure,) = bench.run(script, lines({}))
        assert failure.error == "Timeout"
        assert max(bench.sets.asked) <= 1000

    def test_many_values_one_after_another(self, bench: Bench) -> None:
        script = "function process(d) { let n = 0; while (!flow.contains('wallets', ['w' + n])) n++; return { n } }"
        bench.fill("wallets", ["w700"])
        assert bench.run(script, lines({}))[0] == [b'{"n":700}']
        bench.fill("wallets", [])
        _, (failure,) = bench.run(script, lines({}))
        assert failure.error == "Timeout"

    def test_values_that_cannot_be_stored_are_never_members(self, bench: Bench) -> None:
        script = "function process(d) { return { m: flow.contains('wallets', d.v) } }"
        asked = lines({"v": ["", " ", "x" * 1025, "x" * 3000]}, {"v": ["x" * 1024]}, {"v": ["", "0xaa"]})
        bench.fill("wallets", ["0xaa", "x" * 1024])
        assert bench.run(script, asked)[0] == [b'{"m":false}', b'{"m":true}', b'{"m":true}']

    @settings(max_examples=examples(50))
    @given(
        wallets=st.sets(st.integers(0, 12), max_size=8),
        tokens=st.sets(st.integers(0, 12), max_size=8),
        records=st.lists(st.tuples(*[st.lists(st.integers(0, 12), max_size=4)] * 3), min_size=1, max_size=30),
    )
    def test_as_a_direct_evaluation_would(
        self,
        module_bench: Bench,
        wallets: set[int],
        tokens: set[int],
        records: list[tuple[list[int], list[int], list[int]]],
    ) -> None:
        script = """
          function process(d) {
            const path = [];
            const has = (name, values) => { const found = flow.contains(name, values); path.push(found); return found };
            try {
              if (!has('wallets', d.a)) throw new Error('not found');
              if (has('tokens', d.b)) return { path, out: 1 };
            } catch (e) { if (has('tokens', d.c) && has('wallets', d.b)) return null }
            if (has('wallets', d.c.slice(0, 1))) throw new RangeError('in');
            return { path, out: 2 };
          }
        """

        def direct(a: set[int], b: set[int], c: list[int]) -> tuple[list[bool], int | str | None]:
            path = [bool(a & wallets)]
            if path[0]:
                path.append(bool(b & tokens))
                if path[-1]:
                    return path, 1
            else:
                path.append(bool({*c} & tokens))
                if path[-1]:
                    path.append(bool(b & wallets))
                    if path[-1]:
                        return path, None
            path.append(bool({*c[:1]} & wallets))
            return path, "RangeError" if path[-1] else 2

        module_bench.fill("wallets", [f"V{n}" for n in wallets])
        module_bench.fill("tokens", [f"v{n}" for n in tokens])
        kept, failures = module_bench.run(
            script,
            lines(
                *({key: [f"v{n}" for n in part] for key, part in zip("abc", parts, strict=True)} for parts in records)
            ),
        )
        expected = [direct({*a}, {*b}, c) for a, b, c in records]
        assert [json.loads(value or b"") for value in kept] == [
            {"path": p, "out": o} for p, o in expected if isinstance(o, int)
        ]
        assert [failure.row for failure in failures] == [
            row for row, (_, o) in enumerate(expected) if o == "RangeError"
        ]


class TestProtocol:
    SCRIPT = "function process(d) { return { n: d.n, m: flow.contains('wallets', [d.v]) } }"

    def started(self, bench: Bench, count: int) -> list[PendingBatch]:
        transform = bench.transform(self.SCRIPT)
        return [transform.start(batch(lines(*({"n": n, "v": f"v{k}"} for n in range(200))))) for k in range(count)]

    def test_polling_done_finishes_the_batches_in_order(self, bench: Bench) -> None:
        pending = self.started(bench, 3)
        done = 0
        while done < 3:
            done = sum(one.done() for one in reversed(pending))
            assert all(one.done() for one in pending[:done])
        assert all(len(one.result().output) == 200 for one in pending)

    def test_the_result_of_a_later_batch_can_be_awaited_first(self, bench: Bench) -> None:
        first, second = self.started(bench, 2)
        assert len(second.result().output) == 200
        assert first.done()

    def test_batches_wait_for_an_unavailable_store(self, bench: Bench) -> None:
        bench.sets.away = True
        first, second = self.started(bench, 2)
        while not first.done():
            pass
        for one in (first, second, first):
            with pytest.raises(RedisUnavailable):
                one.result()
        bench.sets.away = False
        assert [len(one.result().output) for one in (first, second)] == [200, 200]

    def test_an_empty_batch(self, bench: Bench) -> None:
        assert len(bench.transform(self.SCRIPT).start(batch([])).result().output) == 0

    def test_the_batch_is_not_changed(self, bench: Bench) -> None:
        given_ = batch([b'{"n":1,\n"v":"x"}', None, b"[]"])
        bench.transform("function process(d) { return [d, d] }").start(given_).result()
        assert given_ == batch([b'{"n":1,\n"v":"x"}', None, b"[]"])


def test_every_write_is_visible_in_the_next_batch(valkey_server: ValkeyServer) -> None:
    client = connect(valkey_server.url)
    sets, names = RedisSetStore(client), RedisDatasetNames(client)
    script = "function process(d) { return flow.contains('wallets', [d.a, d.b]) ? d : null }"
    with Sandbox(spare=False) as sandbox:
        config = V8Transform(uid="u1", type="v8", script=script)
        transform = build(config, TransformContext("c1", "ann", sets, names, sandbox=sandbox))

        def passed() -> list[int] | str:
            given_ = batch(lines(*({"a": f"0xA{n}", "b": f"0xb{n}"} for n in range(300))))
            outcome = transform.start(given_).result()
            return (
                outcome.failures[0].error if outcome.failures else [offset - 1000 for offset in outcome.output.offsets]
            )

        assert passed() == "UnknownDataset"
        names.put("ann", "wallets", "d1")
        assert passed() == []
        sets.add(dataset_set_id("d1"), ["0xa3", "0xb299"])
        assert passed() == [3, 299]
        sets.remove(dataset_set_id("d1"), ["0xa3"])
        assert passed() == [299]
        sets.replace(dataset_set_id("d1"), [f"0xb{n}" for n in range(100)])
        assert passed() == [*range(100)]
        valkey_server.kill()
        pending = transform.start(batch(lines({"a": "0xb1", "b": "q"})))
        with pytest.raises(RedisUnavailable):
            pending.result()
        valkey_server.start()
        assert len(pending.result().output) in (0, 1)
    client.close()


def test_the_source_row_of_each_output_is_known_when_records_are_split(bench: Bench) -> None:
    script = (
        "function process(record) { if (record.n < 0) throw new Error('no'); return Array(record.n).fill(record); }"
    )
    result = bench.transform(script).start(batch([b'{"n":2}', b'{"n":0}', b'{"n":-1}', b'{"n":1}'])).result()
    assert result.source_rows is not None
    assert (list(result.source_rows), [failure.row for failure in result.failures]) == ([0, 0, 3], [2])
    assert bench.transform(script).start(batch([b'{"n":1}', b'{"n":0}'])).result().source_rows is None
