"""The transform `v8`: runs the user's JavaScript function `process` over records.

The sandbox of the worker runs it. Each output of a record has an index, see `output_index`. The index depends only on
the index of the record and on the position of the output among the record's outputs, so that a repeated record gives
the same indexes.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import cast

from headwater.errors import Fault, InvalidScript, SandboxFailed
from headwater.model.outputs import output_index
from headwater.model.record import Failure, Int64Column, RecordBatch, RowIndexes, TransformResult
from headwater.model.transforms.v8 import V8Transform
from headwater.model.value_sets import MAX_VALUE_CHARS, dataset_set_id
from headwater.native import BytesColumn
from headwater.sandbox.lookups import LookupRequest, LookupResult
from headwater.sandbox.results import OUTPUT_SEPARATOR
from headwater.sandbox.sandbox import Sandbox
from headwater.sandbox.script_batch import ScriptBatch
from headwater.stores.protocols.datasets import DatasetNames
from headwater.stores.protocols.sets import SetLookup
from headwater.transforms.base import PendingBatch, TransformContext
from headwater.transforms.transform_type import PrepareContext, PreparedTransform, TransformType


class DatasetLookup:
    """Answers `flow.contains` for one owner.

    A thread of the sandbox calls it; the stores are thread-safe.
    """

    def __init__(self, owner: str, names: DatasetNames, sets: SetLookup) -> None:
        self._owner = owner
        self._names = names
        self._sets = sets

    def __call__(self, request: LookupRequest) -> LookupResult:
        """Return for each dataset whether it contains the values; None for an unknown one.

        Raises RedisUnavailable.
        """
        ids = self._names.resolve(self._owner, [name for name, _ in request])
        return [
            None if dataset_id is None else self._contains(dataset_id, values)
            for dataset_id, (_, values) in zip(ids, request, strict=True)
        ]

    def _contains(self, dataset_id: str, values: list[str]) -> list[bool]:
        lowered, set_id = _to_lower_case(values), dataset_set_id(dataset_id)
        if all(0 < length <= MAX_VALUE_CHARS for length in {*map(len, lowered)}):
            return self._sets.contains_many(set_id, lowered)
        storable = [value for value in lowered if 0 < len(value) <= MAX_VALUE_CHARS]
        members = dict(zip(storable, self._sets.contains_many(set_id, storable), strict=True))
        return [members.get(value, False) for value in lowered]


def _to_lower_case(values: list[str]) -> list[str]:
    """Return the values in lower case.

    ASCII values are converted as one text, which takes a third of the time.
    """
    lines = "\n".join(values)
    if lines.isascii():
        lowered = lines.lower().split("\n")
        if len(lowered) == len(values):  # no value has a line break
            return lowered
    return [value.lower() for value in values]


class V8Script:
    """Implements Transform: runs one script over the records."""

    def __init__(
        self,
        uid: str,
        script: str,
        sandbox: Sandbox,
        lookup: DatasetLookup,
        *,
        feeds_script: bool = False,
        max_batch_output_bytes: int | None = None,
    ) -> None:
        """Load a script, and block while it loads.

        Args:
            uid: The uid of the transform.
            script: The source text of the script.
            sandbox: The sandbox of the worker.
            lookup: Answers the script's calls of `flow.contains`.
            feeds_script: Whether a later transform of the pipeline is a script.
            max_batch_output_bytes: See TransformContext.
        """
        self._uid = uid
        self._feeds_script = feeds_script
        self._max_batch_output_bytes = max_batch_output_bytes
        self._sandbox = sandbox
        self._number = sandbox.add(script, lookup)

    @property
    def uid(self) -> str:
        return self._uid

    def start(self, batch: RecordBatch) -> PendingBatch:
        script_batch = self._sandbox.submit(
            self._number, batch, feeds_script=self._feeds_script, max_batch_output_bytes=self._max_batch_output_bytes
        )
        return _PendingScriptBatch(self._uid, self._sandbox, script_batch)

    def close(self) -> None:
        """Do nothing: the script is unloaded with the sandbox, which the worker owns."""


class _PendingScriptBatch:
    """A batch that a script is processing in the sandbox."""

    def __init__(self, uid: str, sandbox: Sandbox, script_batch: ScriptBatch) -> None:
        self._uid = uid
        self._sandbox = sandbox
        self._script_batch = script_batch

    def done(self) -> bool:
        self._sandbox.step()
        return self._script_batch.finished or self._sandbox.has_failed()

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.done() and (left_s := deadline - time.monotonic()) > 0:
            self._sandbox.wait_for_event(left_s)

    def result(self) -> TransformResult:
        self._sandbox.wait(self._script_batch)
        return _to_result(self._script_batch, self._uid)


def _to_result(script_batch: ScriptBatch, uid: str) -> TransformResult:
    failures = sorted(
        Failure(row, f.error, f.message, uid, f.line, f.column, f.attempts) for row, f in script_batch.failures.items()
    )
    if not script_batch.has_multiple_outputs:
        return TransformResult(_batch_with_single_outputs(script_batch), failures, script_batch.logs)
    output, source_rows = _batch_with_multiple_outputs(script_batch)
    return TransformResult(output, failures, script_batch.logs, source_rows)


def _batch_with_single_outputs(script_batch: ScriptBatch) -> RecordBatch:
    """Return the outputs as a batch, when no record has more than one output."""
    batch, outputs = script_batch.batch, script_batch.outputs
    indexes = batch.indexes
    if any(indexes):  # the output of a record with the index 0 has the index 0 too
        indexes = Int64Column("q", [output_index(index, 0) for index in indexes])
    output_batch = replace(batch, values=outputs, indexes=indexes, may_have_bigint_marks=script_batch.feeds_script)
    rows_with_output = outputs.non_empty_rows()
    return output_batch if len(rows_with_output) == len(batch) else output_batch.take(rows_with_output)


def _batch_with_multiple_outputs(script_batch: ScriptBatch) -> tuple[RecordBatch, RowIndexes]:
    """Return the outputs as a batch, when a record may have more than one output.

    Also returns the row of the source record of each output.
    """
    lines = cast("Iterable[bytes]", script_batch.outputs)
    outputs = [line.split(OUTPUT_SEPARATOR) if line else [] for line in lines]
    rows = RowIndexes("i", [row for row, values in enumerate(outputs) for _ in values])
    positions = [position for values in outputs for position in range(len(values))]
    batch = script_batch.batch.take(rows)
    indexes = Int64Column("q", map(output_index, batch.indexes, positions))
    values = BytesColumn.of(chain.from_iterable(outputs))
    return replace(batch, values=values, indexes=indexes, may_have_bigint_marks=script_batch.feeds_script), rows


def build(config: V8Transform, context: TransformContext) -> V8Script:
    """Build the transform of a worker.

    Blocks while the script loads. Raises InvalidScript and SandboxFailed.
    """
    if context.sandbox is None:
        raise SandboxFailed("TransformContext.sandbox is None, but the pipeline has a v8 transform.")
    lookup = DatasetLookup(context.owner, context.names, context.sets)
    return V8Script(
        config.uid,
        config.runnable_script,
        context.sandbox,
        lookup,
        feeds_script=context.feeds_script,
        max_batch_output_bytes=context.max_batch_output_bytes,
    )


def prepare_script(config: V8Transform, context: PrepareContext) -> PreparedTransform:
    """Validate and compile the script, unless the stored configuration has it already.

    Raises SandboxFailed.
    """
    for stored in context.stored:
        if isinstance(stored, V8Transform) and stored.script == config.script:
            return PreparedTransform(config.model_copy(update={"javascript": stored.javascript}))
    try:
        checked = context.validate_script(config.script, context.example)
    except InvalidScript as error:
        return PreparedTransform(config, faults=[Fault("/script", error.detail)])
    warnings = [Fault("/script", warning) for warning in checked.warnings]
    return PreparedTransform(config.model_copy(update={"javascript": checked.javascript}), warnings=warnings)


TYPE = TransformType(build, prepare=prepare_script)
