"""Runs the user's JavaScript function `process` over records, in the worker's sandbox.

The outputs of a record are numbered, see `output_index`. An output's number depends on nothing but the places of the
outputs, so a repeat has the same.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import cast

from headwater.errors import SandboxFailed
from headwater.model.value_sets import MAX_VALUE_CHARS, dataset_set
from headwater.model.record import Failure, Int64Column, Outcome, RecordBatch, RowIndexes
from headwater.model.transform import V8Transform, output_index
from headwater.native import BytesColumn
from headwater.sandbox.sandbox import MembershipQuery, MembershipResult, Sandbox
from headwater.sandbox.script_batch import ScriptBatch
from headwater.stores.protocols.sets import DatasetNames, SetLookup
from headwater.transforms.base import Pending, TransformContext


class DatasetLookup:
    """Answers `flow.contains` for one owner. Runs on a thread of the sandbox; the stores are thread-safe."""

    def __init__(self, owner: str, names: DatasetNames, sets: SetLookup) -> None:
        self._owner = owner
        self._names = names
        self._sets = sets

    def __call__(self, question: MembershipQuery) -> MembershipResult:
        """Membership per name and value, None for a name that is no dataset's. Raises SetStoreUnavailable."""
        ids = self._names.resolve(self._owner, [name for name, _ in question])
        return [
            None if dataset_id is None else self._contains(dataset_id, values)
            for dataset_id, (_, values) in zip(ids, question, strict=True)
        ]

    def _contains(self, dataset_id: str, values: list[str]) -> list[bool]:
        lowered, target = _lowered(values), dataset_set(dataset_id)
        if all(0 < length <= MAX_VALUE_CHARS for length in {*map(len, lowered)}):
            return self._sets.contains_many(target, lowered)
        storable = [value for value in lowered if 0 < len(value) <= MAX_VALUE_CHARS]
        members = dict(zip(storable, self._sets.contains_many(target, storable), strict=True))
        return [members.get(value, False) for value in lowered]


def _lowered(values: list[str]) -> list[str]:
    """Values in lower case. A list in ASCII is lowered as one text, which takes a third of the time."""
    lines = "\n".join(values)
    if lines.isascii():
        lowered = lines.lower().split("\n")
        if len(lowered) == len(values):  # no value has a line break
            return lowered
    return [value.lower() for value in values]


class V8:
    """One script of a pipeline. output_to_script: another script follows further down the chain."""

    def __init__(
        self, uid: str, script: str, sandbox: Sandbox, lookup: DatasetLookup, *, output_to_script: bool = False
    ) -> None:
        self._uid = uid
        self._output_to_script = output_to_script
        self._sandbox = sandbox
        self._number = sandbox.add(script, lookup)

    @property
    def uid(self) -> str:
        return self._uid

    def start(self, batch: RecordBatch) -> Pending:
        job = self._sandbox.submit(self._number, batch, output_to_script=self._output_to_script)
        return _Running(self._uid, self._sandbox, job)

    def close(self) -> None:
        """Nothing to free: the script goes with the sandbox, which belongs to the worker."""


class _Running:
    """A batch in the sandbox."""

    def __init__(self, uid: str, sandbox: Sandbox, job: ScriptBatch) -> None:
        self._uid = uid
        self._sandbox = sandbox
        self._job = job

    def done(self) -> bool:
        self._sandbox.step()
        return self._job.finished or self._sandbox.has_failed()

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.done() and (left_s := deadline - time.monotonic()) > 0:
            self._sandbox.pause(left_s)

    def result(self) -> Outcome:
        self._sandbox.wait(self._job)
        return _outcome(self._job, self._uid)


def _outcome(job: ScriptBatch, uid: str) -> Outcome:
    failures = [Failure(row, e.error, e.message, uid, e.line, e.column, e.attempts) for row, e in job.errors.items()]
    failures.sort()
    return Outcome(_several(job) if job.has_multiple_outputs else _single(job), failures, job.logs)


def _single(job: ScriptBatch) -> RecordBatch:
    """The outputs when no record has more than one."""
    batch, outputs = job.batch, job.outputs
    indexes = batch.indexes
    if any(indexes):
        indexes = Int64Column("q", [output_index(index, 0) for index in indexes])
    passed = replace(batch, values=outputs, indexes=indexes, for_script=job.output_to_script)
    filled = outputs.non_empty_rows()
    return passed if len(filled) == len(batch) else passed.take(filled)


def _several(job: ScriptBatch) -> RecordBatch:
    lines = cast("Iterable[bytes]", job.outputs)
    outputs = [line.split(b"\t") if line else [] for line in lines]
    rows = RowIndexes("i", [row for row, values in enumerate(outputs) for _ in values])
    numbers = [number for values in outputs for number in range(len(values))]
    batch = job.batch.take(rows)
    indexes = Int64Column("q", map(output_index, batch.indexes, numbers))
    values = BytesColumn.of(chain.from_iterable(outputs))
    return replace(batch, values=values, indexes=indexes, for_script=job.output_to_script)


def build(config: V8Transform, resources: TransformContext) -> V8:
    """The transform of a worker. Blocks while the script loads. Raises ScriptRefused, SandboxFailed."""
    if resources.sandbox is None:
        raise SandboxFailed("A worker with v8 transforms needs a sandbox: put one into TransformContext.")
    lookup = DatasetLookup(resources.owner, resources.names, resources.sets)
    return V8(
        config.uid, config.runnable_script, resources.sandbox, lookup, output_to_script=resources.output_to_script
    )
