"""Trials with hostile scripts end with a sentence, and change no other trial."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import pytest

from headwater.model.binding import Bindings
from headwater.model.transforms.v8 import ValidatedScript
from headwater.model.trial import NewTrial, Trial
from headwater.sandbox import trial_sandbox
from headwater.sandbox.validation.validate import TRIAL_NICENESS
from headwater.services import trials as trials_module
from headwater.services.flows import Flows, FlowStores
from headwater.services.ids import new_id
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.samples import Samples
from headwater.services.trials import Trials, TrialStores
from headwater.stores.sql.database import Database
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext
from tests.support.memory.sets import MemoryDatasetNames, MemoryPendingSets, MemorySetStore
from tests.support.memory.topic_history import MemoryTopicHistory
from tests.support.sql import fresh_database

TOPIC = "stream.base.log"
COPY = "function process(record) { return record; }"
DOUBLED = "function process(record) { return { n: record.n * 2n }; }"


@pytest.fixture
def database() -> Database:
    return fresh_database()


@contextmanager
def open_context(owner: str) -> Iterator[TransformContext]:
    with trial_sandbox() as sandbox:
        sets, names = MemorySetStore(), MemoryDatasetNames()
        yield TransformContext("", owner, sets, names, sandbox)


def checker() -> PipelineChecker:
    return PipelineChecker(
        bindings=Bindings(),
        validate_script=lambda _script, _example: ValidatedScript([]),
        transform_types=TRANSFORMS,
        new_id=new_id,
    )


def body(*scripts: str, **members: Any) -> NewTrial:
    config = {
        "source": {"chain": "base", "entity": "log"},
        "transforms": [{"type": "v8", "script": script} for script in scripts],
        "sinks": [{"type": "kafka", "name": "out"}],
    }
    return NewTrial.model_validate({"name": "trial", "pipeline_config": config} | members)


def stored(database: Database, *scripts: str) -> str:
    """Store a configuration, and return its id."""
    stores = FlowStores(database.flows, database.revisions, MemorySetStore(), MemoryPendingSets())
    flows = Flows(stores, checker(), lambda: datetime(2026, 1, 2, tzinfo=UTC), new_id)
    return flows.create("ann", body(*scripts)).flow.id


def run(database: Database, sent: NewTrial, count: int) -> Trial:
    stream = MemoryTopicHistory()
    stream.create(TOPIC, 1)
    for n in range(count):
        stream.append(TOPIC, 0, 1000 + n, b'{"n":%d}' % (10**18 + n))
    trials = Trials(
        stores=TrialStores(database.flows, database.deployments, database.revisions.get),
        samples=Samples(Bindings(), {None: stream}, monotonic),
        checker=checker(),
        transform_types=TRANSFORMS,
        open_context=open_context,
        now=lambda: datetime(2026, 1, 2, tzinfo=UTC),
        clock=monotonic,
    )
    return trials.run("ann", sent, [])


def test_many_records_are_processed_as_in_a_worker(database: Database) -> None:
    script = """
      let seen = 0;
      function process(record, ...rest) {
        seen++;
        if (record.n % 10n === 0n) throw new RangeError('ten');
        if (record.n % 10n === 1n) return null;
        return record.n % 10n === 2n ? [record, record] : record;
      }"""
    trial = run(database, body(script, COPY, sample={"last": 1000}), 1000)
    assert trial.records is not None
    assert trial.summary is not None
    assert trial.done == 1000
    assert trial.summary.outcomes == {"sent": 800, "dropped": 100, "error": 100}
    first, second = trial.summary.transforms
    assert (first.received, first.dropped, first.errors, first.sent) == (1000, 100, 100, 900)
    assert (second.received, second.dropped, second.errors, second.sent) == (900, 0, 0, 900)
    [group] = trial.summary.errors
    assert (group.error, group.message, group.count, group.first) == ("RangeError", "ten", 100, 0)
    assert trial.records[2].outputs == [b'{"n":1000000000000000002}'] * 2


def test_two_revisions_are_compared(database: Database) -> None:
    config_id = stored(database, COPY)
    trial = run(database, body(DOUBLED, id=config_id, against=1, sample={"last": 600}, detail="summary"), 600)
    assert trial.comparison is not None
    assert trial.comparison.counts == {"changed": 600}
    example = trial.comparison.examples[0]
    assert (example.before.outputs, example.after.outputs) == (
        [b'{"n":1000000000000000000}'],
        [b'{"n":2000000000000000000}'],
    )


def test_the_variables_of_one_revision_are_not_changed_by_a_crash_of_the_other(database: Database) -> None:
    counts = "let count = 0; function process(record) { return { count: ++count }; }"
    crashes = """
      let count = 0;
      function process(record) {
        if (record.n % 100n === 50n) { const all = []; for (;;) all.push(new Array(1e6).fill(count)); }
        return { count: ++count };
      }"""
    config_id = stored(database, counts)
    trial = run(database, body(crashes, id=config_id, against=1, sample={"last": 201}, detail="summary"), 201)
    assert trial.comparison is not None
    assert trial.done == 201
    assert trial.comparison.examples
    for example in trial.comparison.examples:
        # Records run in order, and some may run again, so only a new child counts fewer records than there were.
        (output,) = example.before.outputs
        assert json.loads(output or b"")["count"] > example.number
    assert trial.summary is not None
    assert trial.summary.outcomes["error"] == 2


@pytest.mark.parametrize("bomb", ["for (;;);", "const all = []; for (;;) all.push(new Array(1e6).fill(1));"])
def test_a_hostile_record_costs_only_itself(database: Database, bomb: str) -> None:
    hostile = f"function process(record) {{ if (record.n % 300n === 7n) {{ {bomb} }} return record; }}"
    trial = run(database, body(hostile, sample={"last": 300}, detail="summary"), 300)
    assert trial.summary is not None
    assert (trial.done, trial.summary.outcomes) == (300, {"sent": 299, "error": 1})
    assert trial.summary.errors[0].error in ("Timeout", "SandboxCrash")
    again = run(database, body(COPY, sample={"last": 300}, detail="summary"), 300)
    assert again.summary is not None
    assert again.summary.outcomes == {"sent": 300}


def test_only_endless_loops_end_at_the_time_limit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_module, "LONG_TIME_LIMIT_S", 4.0)
    trial = run(database, body("function process() { for (;;); }", sample={"last": 300}, detail="summary"), 300)
    assert "4 s" in trial.unprocessed_reason
    assert trial.done < 300


@pytest.mark.long
def test_large_outputs_need_no_large_memory(database: Database) -> None:
    script = "function process(record) { return Array.from({ length: 2 }, () => ({ a: 'x'.repeat(990000) })); }"
    before = psutil.Process().memory_info().rss
    trial = run(database, body(script, sample={"last": 201}, detail="summary"), 201)
    assert trial.summary is not None
    assert trial.done == 201
    assert trial.summary.transforms[0].sent == 2 * 201
    assert psutil.Process().memory_info().rss - before < 300 << 20


def test_a_record_whose_outputs_grow_in_each_step_is_unfinished(database: Database) -> None:
    grows = "function process(record) { return Array.from({ length: 8 }, () => ({ a: 'x'.repeat(900000) })); }"
    trial = run(database, body(grows, grows, sample={"last": 1}), 1)
    assert trial.records is not None
    assert trial.records[0].outcome == "unfinished"
    assert "larger than 16 MB" in trial.records[0].unfinished_reason


def test_the_children_have_a_low_priority() -> None:
    with trial_sandbox() as sandbox:
        sandbox.add(COPY, lambda request: [[False] * len(values) for _, values in request])
        assert sandbox.pid is not None
        niceness = os.getpriority(os.PRIO_PROCESS, sandbox.pid)
        assert niceness >= TRIAL_NICENESS
        session = Path(f"/proc/{sandbox.pid}/autogroup")
        if session.exists():  # the kernel has autogroups
            assert session.read_text().split()[-1] == str(niceness)
