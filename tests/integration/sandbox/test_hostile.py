"""Scripts that try to exhaust or kill their process, as one record between two good ones."""

from typing import NamedTuple

import pytest

from headwater.errors import ScriptRefused
from headwater.sandbox import Sandbox, validate
from tests.support.sandbox import batch, lookup, run

ANY_BLAME = {"Timeout", "SandboxCrash", "RangeError"}


class Case(NamedTuple):
    """body: of the bad call; outcomes: error classes, or the output, that are right. slow: takes seconds."""

    name: str
    body: str
    outcomes: set[str]
    slow: bool = False


CASES = [
    # Endless loops.
    Case("empty loop", "for (;;) {}", {"Timeout"}),
    Case("loop that catches", "for (;;) { try { throw 0 } catch { continue } finally { continue } }", {"Timeout"}),
    Case("loop in toJSON", "return { toJSON() { for (;;) {} } }", {"Timeout"}),
    Case("loop in a then getter", "return { get then() { for (;;) {} } }", {"Timeout"}),
    Case("wait for ever", "Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0)", {"ReferenceError"}),
    # Slow built-ins.
    Case("backtracking", "return { r: /^(\\w+\\s?)*$/.test('word '.repeat(12) + '!') }", {"Timeout"}),
    Case("nested quantifiers", "return { r: /(y*y*)*z/.exec('y'.repeat(50)) }", {"Timeout"}, slow=True),
    Case("squaring a BigInt", "let n = 7n ** 999999n; for (;;) n *= n", {"Timeout", "RangeError"}),
    Case("BigInt to text", "return { r: String(2n ** (2n ** 26n)).length }", {"Timeout"}),
    Case(
        "power tower", "return { r: String(2n ** (2n ** 28n) % 9n) }", {'{"r":"7"}', "Timeout", "RangeError"}, slow=True
    ),
    # Heap.
    Case("arrays", "const kept = []; for (;;) kept.push(new Array(5000).fill(d))", ANY_BLAME),
    Case(
        "strings",
        "const all = []; for (let i = 0; ; i++) all.push(('z'.repeat(2 ** 19) + i).split('').join())",
        ANY_BLAME,
        slow=True,
    ),
    Case("many objects", "return Array.from({ length: 9e7 }, (_, i) => ({ i }))", ANY_BLAME, slow=True),
    Case("sort", "return { r: Array.from({ length: 2e7 }, (_, i) => -i).sort().length }", ANY_BLAME, slow=True),
    Case(
        "code from text",
        "let code = ''; for (let i = 0; i < 1e6; i++) code += 'var v' + i + ';'; eval(code)",
        {"Timeout", "EvalError"},
        slow=True,
    ),
    Case("one huge array", "new Array(2 ** 30).fill(3)", ANY_BLAME, slow=True),
    Case("endless map", "const m = new Map(); for (let i = 0; ; i++) m.set(i, {})", ANY_BLAME, slow=True),
    Case("closures", "const kept = []; for (;;) kept.push(() => kept)", ANY_BLAME, slow=True),
    Case("registered symbols", "for (let i = 0; ; i++) Symbol.for('symbol ' + i)", ANY_BLAME, slow=True),
    # Off the heap.
    Case("buffers", "const kept = []; for (;;) kept.push(new Uint8Array(32 << 20).fill(9))", ANY_BLAME),
    Case("small buffers", "const kept = []; for (;;) kept.push(new Uint8Array(8192).fill(9))", ANY_BLAME, slow=True),
    Case(
        "growing buffers",
        "const all = []; const o = { maxByteLength: 2 ** 29 };"
        " for (;;) { const b = new ArrayBuffer(8, o); b.resize(2 ** 25); all.push(b) }",
        ANY_BLAME,
        slow=True,
    ),
    Case(
        "copies of typed arrays",
        "let a = new Float64Array(2 ** 19).fill(2); const all = []; for (;;) all.push(a = a.slice())",
        ANY_BLAME,
        slow=True,
    ),
    Case("wasm memory", "for (;;) new WebAssembly.Memory({ initial: 5000 })", {"ReferenceError"}),
    Case("formatters", "for (;;) new Intl.NumberFormat('de').format(1)", ANY_BLAME, slow=True),
    # What used to wedge an engine.
    Case(
        "promise that feeds itself",
        "const again = () => { Promise.resolve(1).then(again) }; again(); return { r: 1 }",
        {'{"r":1}'},
    ),
    Case(
        "endless async generator",
        "const g = async function* () { for (;;) yield 1 };"
        " (async () => { for await (const x of g()); })(); return { r: 1 }",
        {'{"r":1}'},
    ),
    Case("rejected promises", "for (;;) Promise.reject(new Error('no'))", ANY_BLAME, slow=True),
    # Limits of sizes.
    Case("recursion", "const deeper = () => deeper() + 1; return { r: deeper() }", {"RangeError"}),
    Case("long join", "return { r: new Array(1 << 27).join('abcdef') }", {"RangeError"}),
    Case(
        "array that lies",
        "return new Proxy([], { get: (t, k) => (k === 'length' ? 2 ** 32 - 1 : {}) })",
        {"InvalidOutput"},
    ),
    Case("longest string", "return { r: 'a'.repeat(2 ** 29 - 24) }", ANY_BLAME),
    Case(
        "deep nesting",
        "let a = {}; for (let i = 0; i < 3e5; i++) a = { a }; return a",
        {"OutputTooLarge", "RangeError", "Timeout"},
    ),
    Case(
        "huge regex",
        "return { r: new RegExp('(?:a|b|c)+'.repeat(20000)).test('abc') }",
        {"SyntaxError", *ANY_BLAME},
        slow=True,
    ),
    Case("text that loops", "flow.contains('x', [{ toString() { for (;;) {} } }])", {"TypeError"}),
    # Death of the process.
    Case("replacement bomb", "return { r: 'b'.repeat(1 << 23).replace(/b/g, '$&'.repeat(16)).length }", ANY_BLAME),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * c.slow) for c in CASES])
def test_only_the_bad_record_suffers(sandbox: Sandbox, case: Case) -> None:
    script = f"function process(d) {{ if (!d.bad) return d;\n{case.body}\n}}"
    number = sandbox.add(script, lookup({"x": set()}))
    job = sandbox.submit(number, batch([b'{"a":1}', b'{"a":2,"bad":1}', b'{"a":3}']))
    sandbox.wait(job)
    assert (job.outputs[0], job.outputs[2], [*job.errors]) == (b'{"a":1}', b'{"a":3}', [1] if job.errors else [])
    outcome = job.errors[1].error if job.errors else job.outputs[1].decode()
    assert outcome in case.outcomes
    assert sandbox.crash_events <= 1

    after = sandbox.submit(number, batch([b'{"a":4}']))
    sandbox.wait(after)
    assert after.outputs == [b'{"a":4}']


def test_with_the_jit() -> None:
    bodies = [
        "for (;;) {}",
        "const kept = []; for (;;) kept.push(new Array(5000).fill(d))",
        "new WebAssembly.Memory({})",
    ]
    with Sandbox(jit=True, spare=False) as sandbox:
        for body in bodies:
            job = run(sandbox, f"function process(d) {{ if (!d.bad) return d; {body} }}", [b'{"bad":1}', b"{}"])
            assert job.outputs == [b"", b"{}"]
            assert [*job.errors] == [0]


def test_several_bad_records_of_one_batch_are_one_crash_event() -> None:
    script = "function process(d) { if (d.bad) return { r: 'a'.repeat(2 ** 29 - 24) }; return d }"
    values = [b'{"bad":1}' if row in (3, 4, 40) else b'{"n":%d}' % row for row in range(50)]
    with Sandbox() as sandbox:
        job = run(sandbox, script, values)
        assert {row: error.error for row, error in job.errors.items()} == dict.fromkeys((3, 4, 40), "SandboxCrash")
        assert [row for row in range(50) if not job.outputs[row]] == [3, 4, 40]
        assert sandbox.crash_events == 1


@pytest.mark.parametrize(
    "script",
    [
        "for (;;) {}",
        pytest.param("const kept = []; for (;;) kept.push(new Array(5000).fill(1))", marks=pytest.mark.slow),
    ],
)
def test_a_hostile_top_level_is_refused(script: str) -> None:
    with pytest.raises(ScriptRefused):
        validate(script, "{}")
