"""Scripts try to exhaust, to escape or to kill their process.

They are single records between good ones.

CI runs the fast scripts together in one worker. `make test-all` runs each script alone, so that failures are specific.
"""

import pytest

from headwater.errors import InvalidScript
from headwater.sandbox import Sandbox, validate_script
from tests.integration.sandbox.corpus import CASES, Case
from tests.support.sandbox import batch, lookup, run


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_only_the_bad_record_suffers(sandbox: Sandbox, case: Case) -> None:
    script = f"function process(d) {{ if (!d.bad) return d;\n{case.body}\n}}"
    number = sandbox.add(script, lookup({"x": set()}))
    job = sandbox.submit(number, batch([b'{"a":1}', b'{"a":2,"bad":1}', b'{"a":3}']))
    sandbox.wait(job)
    assert (job.outputs[0], job.outputs[2], [*job.failures]) == (b'{"a":1}', b'{"a":3}', [1] if job.failures else [])
    outcome = job.failures[1].error if job.failures else (job.outputs[1] or b"").decode()
    assert outcome in case.outcomes
    assert sandbox.crashed_batches <= 1

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
            assert [*job.failures] == [0]


def test_several_bad_records_of_one_batch_are_one_crash_event() -> None:
    script = "function process(d) { if (d.bad) return { r: 'a'.repeat(2 ** 29 - 24) }; return d }"
    values = [b'{"bad":1}' if row in (3, 4, 40) else b'{"n":%d}' % row for row in range(50)]
    with Sandbox() as sandbox:
        job = run(sandbox, script, values)
        assert {row: error.error for row, error in job.failures.items()} == dict.fromkeys((3, 4, 40), "SandboxCrash")
        assert [row for row in range(50) if not job.outputs[row]] == [3, 4, 40]
        assert sandbox.crashed_batches == 1


@pytest.mark.parametrize(
    "script",
    [
        "for (;;) {}",
        pytest.param("const kept = []; for (;;) kept.push(new Array(5000).fill(1))", marks=pytest.mark.slow),
    ],
)
def test_a_hostile_top_level_is_refused(script: str) -> None:
    with pytest.raises(InvalidScript):
        validate_script(script, "{}")
