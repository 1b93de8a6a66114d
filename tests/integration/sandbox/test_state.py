"""Scripts with state whose child dies, whose lookups are slow, and which share a worker."""

import os
import random
import signal
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from headwater.errors import RedisUnavailable
from headwater.sandbox import Sandbox
from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.script_batch import ScriptBatch
from tests.integration.sandbox.test_deaths import Killer, finish
from tests.support.sandbox import batch, lines, lookup

SCRIPT = """
  const known = new Map();
  let calls = 0;
  function process(r) {
    calls++;
    let sum = 0;
    for (let i = 0; i < 400; i++) sum += i % (r.n + 1);
    if (!known.has(r.v)) known.set(r.v, flow.contains('x', [r.v]));
    return {n: r.n, calls, member: known.get(r.v), sum: sum > 0};
  }
"""
RECORDS = [{"n": n, "v": f"v{n % 37}"} for n in range(200)]
MEMBERS = {"x": {f"v{n}" for n in range(0, 37, 3)}, "y": {"v1"}}


def outputs_of(job: ScriptBatch) -> list[dict[str, Any]]:
    assert not job.failures
    return [msgspec.json.decode(line or b"") for line in job.outputs]


def check_answers(outputs: Sequence[dict[str, Any]]) -> None:
    assert [output["n"] for output in outputs] == [record["n"] for record in RECORDS]
    assert [output["member"] for output in outputs] == [record["v"] in MEMBERS["x"] for record in RECORDS]


def test_kills_at_random_times_do_not_keep_assumed_lookup_results() -> None:
    with Sandbox() as sandbox:
        number = sandbox.add(SCRIPT, lookup(MEMBERS))
        killer = Killer(sandbox, seed=11, kills=8)
        killer.start()
        batches = 0
        while killer.is_alive() or batches < 12:
            job = sandbox.submit(number, batch(lines(*RECORDS)))
            finish(job, sandbox)
            check_answers(outputs_of(job))
            batches += 1
        killer.join()


def test_a_kill_during_a_lookup_resets_the_state() -> None:
    kills = iter([True])
    with Sandbox(spare=False) as sandbox:

        def answer(request: LookupRequest) -> LookupResult:
            if next(kills, False) and sandbox.pid:
                os.kill(sandbox.pid, signal.SIGKILL)
            return lookup(MEMBERS)(request)

        number = sandbox.add(SCRIPT, answer)
        job = sandbox.submit(number, batch(lines(*RECORDS[:3])))
        finish(job, sandbox)
        assert sorted(output["calls"] for output in outputs_of(job)) == [1, 2, 3]
        assert sandbox.crashed_batches == 1


def test_scripts_with_and_without_state_share_a_child() -> None:
    plain = "function process(r) { return {n: r.n, member: flow.contains('y', [r.v])} }"
    with Sandbox() as sandbox:
        first, second, third = (sandbox.add(script, lookup(MEMBERS)) for script in (SCRIPT, plain, SCRIPT))
        jobs = [
            sandbox.submit(number, batch(lines(*RECORDS))) for number in (first, second, third, first, second, third)
        ]
        for job in jobs:
            finish(job, sandbox)
        for job in (jobs[0], jobs[2]):
            assert [output["calls"] for output in outputs_of(job)] == list(range(1, 201))
        for job in (jobs[3], jobs[5]):
            assert [output["calls"] for output in outputs_of(job)] == list(range(201, 401))
            check_answers(outputs_of(job))
        for job in (jobs[1], jobs[4]):
            assert [output["member"] for output in outputs_of(job)] == [record["v"] == "v1" for record in RECORDS]


@pytest.mark.parametrize("pause_s", [0.06, pytest.param(0.4, marks=pytest.mark.long)])
def test_no_record_is_rejected_for_slow_lookups(pause_s: float) -> None:
    def answer(request: LookupRequest) -> LookupResult:
        time.sleep(pause_s)
        return lookup(MEMBERS)(request)

    with Sandbox() as sandbox:
        number = sandbox.add(SCRIPT, answer)
        job = sandbox.submit(number, batch(lines(*RECORDS[:4])))
        finish(job, sandbox)
        assert [output["member"] for output in outputs_of(job)] == [True, False, False, True]


def test_a_query_of_many_values_in_several_datasets() -> None:
    script = """
      let asked = 0;
      function process(r) {
        asked++;
        const values = Array.from({length: 1000}, (_, i) => 'v' + (i + 1000 * r.n));
        let member = false;
        try { member = flow.contains(r.name, values); } catch { member = 'caught'; }
        return {asked, member};
      }
    """
    records = [{"n": 0, "name": "x"}, {"n": 1, "name": "x"}, {"n": 0, "name": "none"}, {"n": 0, "name": "y"}] * 2
    with Sandbox() as sandbox:
        job = sandbox.submit(sandbox.add(script, lookup(MEMBERS)), batch(lines(*records)))
        finish(job, sandbox)
        assert {row: error.error for row, error in job.failures.items()} == {2: "UnknownDataset", 6: "UnknownDataset"}
        outputs = [msgspec.json.decode(line) for line in job.outputs if line]
        assert [output["member"] for output in outputs] == [True, False, True] * 2
        assert [output["asked"] for output in outputs] == [1, 2, 4, 5, 6, 8]


def test_a_store_that_fails_during_a_batch() -> None:
    """The state is reset each time.

    Earlier results are cached, so that the batch makes progress.
    """
    script = """
      let calls = 0, hits = 0;
      function process(r) {
        calls++;
        if (flow.contains('x', [r.v])) hits++;
        return {calls, again: flow.contains('x', ['w' + hits])};
      }
    """
    rng = random.Random(1)

    def answer(request: LookupRequest) -> LookupResult:
        if rng.random() < 0.5:
            raise RedisUnavailable("away")
        return lookup(MEMBERS)(request)

    records = RECORDS[:12]
    with Sandbox() as sandbox:
        job, refusals = sandbox.submit(sandbox.add(script, answer), batch(lines(*records))), 0
        while not job.finished:
            try:
                finish(job, sandbox)
            except RedisUnavailable:
                refusals += 1
        assert refusals
        calls = [output["calls"] for output in outputs_of(job)]
        assert len(calls) == len(records)
        # A busy machine cuts the batch into segments. A failure then resets the state only for the current segment.
        assert all(count in (1, before + 1) for before, count in zip([0, *calls], calls, strict=False))
        assert max(calls) > 1
