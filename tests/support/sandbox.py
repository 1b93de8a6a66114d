"""Runs scripts in a real sandbox."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headwater.model.record import RecordBatch
from headwater.sandbox import Sandbox
from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.script_batch import ScriptBatch

TIME_MS = 1_700_000_000_123


def batch(values: Sequence[bytes | None], topic: str = "stream.base.log") -> RecordBatch:
    """Return a batch of records of one topic, alternately in two partitions."""
    rows = range(len(values))
    return RecordBatch.of(
        topic, [*values], [b"k%d" % row for row in rows], [TIME_MS + row for row in rows],
        [row % 2 for row in rows], [1000 + row for row in rows], [0 for _ in rows],
    )  # fmt: skip


def lines(*records: Any) -> list[bytes]:
    """Return each record as JSON."""
    return [msgspec.json.encode(record) for record in records]


def lookup(sets: Mapping[str, set[str]]) -> Callable[[LookupRequest], LookupResult]:
    """Return a function that answers lookups from plain sets.

    Other names are unknown.
    """
    return lambda request: [
        None if name not in sets else [value.lower() in sets[name] for value in values] for name, values in request
    ]


def run(
    sandbox: Sandbox, script: str, values: Sequence[bytes | None], sets: Mapping[str, set[str]] | None = None
) -> ScriptBatch:
    """Run a script on one batch."""
    job = sandbox.submit(sandbox.add(script, lookup(sets or {})), batch(values))
    sandbox.wait(job)
    return job


def result(sandbox: Sandbox, body: str, record: Any = None, sets: Mapping[str, set[str]] | None = None) -> Any:
    """Run `process(d) { body }` on one record.

    Return the parsed output, None (dropped), or the class of the error.
    """
    job = run(sandbox, f"function process(d) {{ {body} }}", lines({} if record is None else record), sets)
    if job.failures:
        return job.failures[0].error
    return msgspec.json.decode(job.outputs[0]) if job.outputs[0] else None
