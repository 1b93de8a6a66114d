"""No record is lost or wrongly rejected when children die or grow at any time.

Nothing is left behind.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from headwater.errors import RedisUnavailable, SandboxFailed
from headwater.sandbox import Sandbox
from headwater.sandbox import sandbox as sandbox_module
from headwater.sandbox.child import SandboxedChild
from headwater.sandbox.deno_command import DenoCommand
from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.results import ScriptFailure
from headwater.sandbox.script_batch import ScriptBatch
from tests.support.processes import alive
from tests.support.sandbox import batch, lines, lookup
from tests.support.waiting import until

SCRIPT = """
  function process(d) {
    let sum = 0;
    for (let i = 0; i < 400; i++) sum += i % (d.n + 1);
    return { n: d.n, sum, member: flow.contains('x', [d.v]) };
  }
"""
RECORDS = [{"n": n, "v": "member" if n % 3 == 0 else f"v{n}"} for n in range(300)]
EXPECTED = [{"n": n, "sum": sum(i % (n + 1) for i in range(400)), "member": n % 3 == 0} for n in range(300)]
MEMBERS = {"x": {"member"}}


def outputs(job: ScriptBatch) -> list[object]:
    return [msgspec.json.decode(line or b"") for line in job.outputs]


def finish(job: ScriptBatch, sandbox: Sandbox, deadline_s: float = 60) -> None:
    """Step a batch until it is finished, like the engine."""
    end = time.monotonic() + deadline_s
    while not job.finished:
        assert time.monotonic() < end
        sandbox.wait(job)


class Killer(threading.Thread):
    """Kills the child at random times."""

    def __init__(self, sandbox: Sandbox, seed: int, kills: int) -> None:
        super().__init__()
        self._sandbox, self._random, self._kills = sandbox, random.Random(seed), kills
        self.killed = 0

    def run(self) -> None:
        while self.killed < self._kills:
            time.sleep(self._random.uniform(0.002, 0.12))
            pid = self._sandbox.pid
            with contextlib.suppress(ProcessLookupError):  # the child was being replaced
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1


def test_kills_at_random_times_neither_lose_nor_reject_records() -> None:
    with Sandbox() as sandbox:
        number = sandbox.add(SCRIPT, lookup(MEMBERS))
        killer = Killer(sandbox, seed=7, kills=12)
        killer.start()
        batches = 0
        while killer.is_alive() or batches < 20:
            job = sandbox.submit(number, batch(lines(*RECORDS)))
            finish(job, sandbox)
            assert outputs(job) == EXPECTED
            assert not job.failures
            batches += 1
        killer.join()
        assert killer.killed == 12
        assert 1 <= sandbox.crashed_batches <= 12


def asked(act: Callable[[], None]) -> Callable[[LookupRequest], LookupResult]:
    """Return a lookup that calls a function for each request."""

    def answer(request: LookupRequest) -> LookupResult:
        act()
        return lookup(MEMBERS)(request)

    return answer


def test_a_kill_while_the_child_waits_for_answers() -> None:
    with Sandbox(spare=False) as sandbox:
        kills = iter([True, False, True])

        def kill() -> None:
            if next(kills, False) and sandbox.pid:
                os.kill(sandbox.pid, signal.SIGKILL)

        job = sandbox.submit(sandbox.add(SCRIPT, asked(kill)), batch(lines(*RECORDS)))
        finish(job, sandbox)
        assert outputs(job) == EXPECTED
        assert sandbox.crashed_batches == 1


class TestBatchesSideBySide:
    """The child gets the next batch before it has finished the previous one."""

    def test_a_death_in_one_batch_does_not_affect_other_batches(self) -> None:
        script = """
          function process(d) {
            const all = [];
            while (d.bad) all.push(new Array(1e6).fill(d));
            return { n: d.n };
          }
        """
        with Sandbox() as sandbox:
            number = sandbox.add(script, lookup({}))
            batches = [[{"n": n, **({"bad": 1} if at == 1 and n == 7 else {})} for n in range(50)] for at in range(4)]
            jobs = [sandbox.submit(number, batch(lines(*records))) for records in batches]
            for at, job in enumerate(jobs):
                finish(job, sandbox)
                blamed = [7] if at == 1 else []
                assert [*job.failures] == blamed
                assert [line for row, line in enumerate(job.outputs) if row not in blamed] == lines(
                    *({"n": n} for n in range(50) if n not in blamed)
                )

    def test_each_batch_gets_the_results_of_its_own_queries(self) -> None:
        script = """
          function process(d) {
            const a = flow.contains('x', ['a' + d.n]), b = flow.contains('y', ['b' + d.n]);
            return { n: d.n, chance: Math.random(), a, b };
          }
        """
        sets = {"x": {f"a{n}" for n in range(0, 900, 7)}, "y": {f"b{n}" for n in range(0, 900, 5)}}
        with Sandbox() as sandbox:
            first, second = (sandbox.add(script, lookup(sets)) for _ in range(2))
            records = [lines(*({"n": 150 * part + n} for n in range(150))) for part in range(6)]
            jobs = [sandbox.submit(first if part % 3 else second, batch(records[part])) for part in range(6)]
            outputs_of_job = []
            for job in jobs:
                finish(job, sandbox)
                outputs_of_job += [msgspec.json.decode(line or b"") for line in job.outputs]
            assert [(d["n"], d["a"], d["b"]) for d in outputs_of_job] == [
                (n, n % 7 == 0, n % 5 == 0) for n in range(900)
            ]
            alone = sandbox.submit(first, batch(records[1]))
            finish(alone, sandbox)
            assert alone.outputs == jobs[1].outputs  # random numbers depend on the record, too

    def test_a_batch_that_runs_too_long_keeps_its_position(self) -> None:
        script = (
            "function process(d) { const end = d.long ? 2e8 : 1; for (let i = 0; i < end; i++); return { n: d.n } }"
        )
        with Sandbox() as sandbox:
            number = sandbox.add(script, lookup({}))
            jobs = [
                sandbox.submit(number, batch(lines({"n": 1}, {"n": 2, "long": at == 0}, {"n": 3}))) for at in range(3)
            ]
            for done, job in enumerate(jobs, 1):
                sandbox.wait(job)
                assert all(each.finished for each in jobs[:done])
            assert [[*job.failures] for job in jobs] == [[1], [], []]
            assert jobs[1].outputs == jobs[2].outputs == lines({"n": 1}, {"n": 2}, {"n": 3})

    def test_an_unavailable_store_delays_both_batches(self) -> None:
        away = iter([True, False, True])

        def check() -> None:
            if next(away, False):
                raise RedisUnavailable("Valkey or Redis does not answer.")

        with Sandbox() as sandbox:
            number = sandbox.add(SCRIPT, asked(check))
            jobs = [sandbox.submit(number, batch(lines(*RECORDS))) for _ in range(3)]
            refusals = 0
            while not jobs[-1].finished:
                try:
                    sandbox.wait(jobs[-1])
                except RedisUnavailable:
                    refusals += 1
            assert refusals == 2
            assert [outputs(job) for job in jobs] == [EXPECTED] * 3


def test_a_stopped_child_is_killed_and_no_record_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "CPU_STARVATION_TIMEOUT_S", 1.0)
    with Sandbox() as sandbox:
        number = sandbox.add(SCRIPT, lookup(MEMBERS))
        assert sandbox.pid is not None
        os.kill(sandbox.pid, signal.SIGSTOP)
        job = sandbox.submit(number, batch(lines(*RECORDS)))
        finish(job, sandbox)
        assert outputs(job) == EXPECTED


def test_no_record_is_rejected_if_reloading_a_script_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a record was rejected, its script is reloaded.

    A child that is too slow is replaced.
    """
    script = "function process(d) { if (d.bad) for (;;); return d }"
    with Sandbox() as sandbox:
        number = sandbox.add(script, lookup({}))
        before, load = sandbox.pid, SandboxedChild.load
        late = iter([ScriptFailure("Timeout", "the top level of the script ran for more than 1 s")])
        monkeypatch.setattr(SandboxedChild, "load", lambda *args: next(late, None) or load(*args))
        job = sandbox.submit(number, batch(lines({"n": 1}, {"bad": 1}, {"n": 2})))
        finish(job, sandbox)
        assert ([*job.outputs], [*job.failures]) == ([b'{"n":1}', b"", b'{"n":2}'], [1])
        after = sandbox.submit(number, batch(lines(*RECORDS[:3])))
        finish(after, sandbox)
        assert (outputs(after), after.failures) == (RECORDS[:3], {})
        assert sandbox.pid != before


def test_a_batch_waits_for_an_unavailable_store() -> None:
    answers = iter([RedisUnavailable("away"), RedisUnavailable("away")])

    def away(request: LookupRequest) -> LookupResult:
        error = next(answers, None)
        if error is not None:
            raise error
        return lookup(MEMBERS)(request)

    with Sandbox(spare=False) as sandbox:
        number = sandbox.add(SCRIPT, away)
        first, second = (sandbox.submit(number, batch(lines(*RECORDS))) for _ in range(2))
        for _ in range(2):
            with pytest.raises(RedisUnavailable):
                sandbox.wait(first)
        sandbox.wait(second)
        assert first.finished
        assert outputs(first) == outputs(second) == EXPECTED


def test_a_grown_child_is_replaced_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "RECYCLE_ABOVE_BYTES", 1)
    monkeypatch.setattr(sandbox_module, "RECYCLE_INTERVAL_S", 0.0)
    with Sandbox() as sandbox:
        number = sandbox.add(SCRIPT, lookup(MEMBERS))
        pids: set[int | None] = set()
        while len(pids) < 3:
            pids.add(sandbox.pid)
            job = sandbox.submit(number, batch(lines(*RECORDS)))
            finish(job, sandbox)
            assert outputs(job) == EXPECTED
        assert sandbox.crashed_batches == 0


def test_promises_that_are_never_freed_do_not_stop_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "RECYCLE_INTERVAL_S", 0.1)
    monkeypatch.setattr(sandbox_module, "RECYCLE_ABOVE_BYTES", 100 << 20)
    script = """
      const litter = async (d) => { await 1; return d };
      function process(d) { for (let i = 0; i < 40; i++) litter(d); return d }
    """
    with Sandbox() as sandbox:
        number = sandbox.add(script, lookup({}))
        pids: set[int | None] = set()
        while len(pids) < 3:
            job = sandbox.submit(number, batch(lines(*RECORDS)))
            finish(job, sandbox)
            assert (outputs(job), job.failures) == (RECORDS, {})
            pids.add(sandbox.pid)


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def respawn(times: int) -> None:
    """Kill children `count` times while batches are processed."""
    with Sandbox() as sandbox:
        number = sandbox.add(SCRIPT, lookup(MEMBERS))
        for _ in range(times):
            assert sandbox.pid is not None
            os.kill(sandbox.pid, signal.SIGKILL)
            job = sandbox.submit(number, batch(lines(*RECORDS[:3])))
            finish(job, sandbox)
            assert outputs(job) == EXPECTED[:3]


def children() -> set[int]:
    """Return all children of this process, including zombies."""
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.parametrize(
    "times",
    [pytest.param(8, marks=pytest.mark.long), pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_nothing_is_left_behind(times: int) -> None:
    """The test runs in its own process.

    Threads of other tests open and close descriptors.
    """
    program = f"from {__name__} import check_left_behind; check_left_behind({times})"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])


def check_left_behind(times: int) -> None:
    """Raise AssertionError if dead children leave descriptors or zombies."""
    respawn(1)
    before = descriptors(), children()
    respawn(times)
    assert (descriptors(), children()) == before


def test_the_child_dies_with_its_parent() -> None:
    program = (
        "import sys\n"
        "from headwater.sandbox import Sandbox\n"
        "sandbox = Sandbox()\n"
        "sandbox.add('function process(d) { return d }', lambda request: [])\n"
        "print(sandbox.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert "deno" in " ".join(psutil.Process(pid).cmdline())
        parent.kill()
    until(lambda: not alive(pid), 10, "the end of the child")


def test_sandboxes_side_by_side() -> None:
    results: dict[int, list[object]] = {}

    def work(name: int) -> None:
        with Sandbox(spare=False) as sandbox:
            number = sandbox.add(SCRIPT, lookup(MEMBERS))
            jobs = [sandbox.submit(number, batch(lines(*RECORDS))) for _ in range(4)]
            finish(jobs[-1], sandbox)
            results[name] = [outputs(job) for job in jobs]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: [EXPECTED] * 4 for name in range(4)}


def test_an_engine_that_does_not_start() -> None:
    with Sandbox(command=DenoCommand(("/bin/true",), 320 << 20, jit=False)) as sandbox, pytest.raises(SandboxFailed):
        sandbox.add(SCRIPT, lookup(MEMBERS))
