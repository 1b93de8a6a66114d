"""Passes the records of cases through the transforms of a pipeline."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Final

from pydantic import ValidationError

from headwater.cli.pipeline_tests.case_sets import CaseSets
from headwater.engine.pipeline import build_transforms
from headwater.errors import InvalidInput
from headwater.model.binding import Bindings
from headwater.model.flow import NewPipelineConfig
from headwater.model.record import RecordBatch
from headwater.model.transforms import TransformConfig
from headwater.model.trial import TrialRecord
from headwater.model.value_sets import dataset_set_id, filter_set_id
from headwater.sandbox import Sandbox, validate_script
from headwater.sandbox.deno_command import deno_command
from headwater.services.ids import new_id
from headwater.services.pipeline_checker import PipelineChecker
from headwater.services.trial_runs import Deadline, PipelineRun
from headwater.transforms import TRANSFORMS
from headwater.transforms.base import TransformContext
from headwater_client.files.cases import ParsedCase
from headwater_client.files.desired import DesiredPipeline
from headwater_client.files.values import normalised

TIME_LIMIT_S: Final = 10.0
"""The time limit of one case. An endless loop takes a second or two for each record."""
CASES_PER_SANDBOX: Final = 25
"""The number of cases after which the process of the sandbox is replaced, because it does not free all memory."""
RECORD_TIME_MS: Final = 1_767_323_045_678
"""The timestamp of all records, which `Date.now()` returns in scripts."""
MAX_TRACE_BYTES: Final = 64 << 20
"""The maximum number of bytes of one record's outputs, of all transforms, that are kept to explain a failure."""


class InvalidPipeline(Exception):
    """A pipeline has faults, so that its cases can't run.

    The message has a line for each fault.
    """


@dataclass(frozen=True, slots=True)
class CompiledPipeline:
    """A pipeline whose scripts are compiled.

    Attributes:
        transforms: The transforms, ready to be built.
        script_paths: The path of each transform's script file, by the uid of the transform; empty without a file.
    """

    transforms: Sequence[TransformConfig]
    script_paths: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The results of the records of a case.

    Attributes:
        pipeline: The pipeline.
        case: The case.
        records: The result of each record of the case.
        values: The values that each filter had in the case, by the name of the transform.
        seconds: How long the records took.
    """

    pipeline: CompiledPipeline
    case: ParsedCase
    records: Sequence[TrialRecord]
    values: Mapping[str, frozenset[str]]
    seconds: float


class PipelineRunner:
    """Runs the cases of one pipeline, one after the other.

    Each case has JavaScript globals of its own (a realm).

    A runner is used by one thread. Entering it checks the pipeline, and raises InvalidPipeline and SandboxFailed.
    """

    def __init__(self, pipeline: DesiredPipeline) -> None:
        self._desired = pipeline
        self._file_values = cache(self._read_values)
        self._stack = ExitStack()
        self._sandbox: Sandbox | None = None
        self._cases_in_sandbox = 0

    def __enter__(self) -> "PipelineRunner":
        self._checked = _check(self._desired)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, case: ParsedCase) -> CaseRun:
        """Run a case.

        Raises FolderError when a file of values can't be read, InvalidInput when a script does not load, and
        SandboxFailed.
        """
        began = time.monotonic()
        transforms = self._checked.transforms
        filters = {each.name or each.uid: each.uid for each in transforms if each.owns_set}
        values = {
            name: frozenset(normalised(case.values[name])) if name in case.values else self._file_values(name)
            for name in filters
        }
        sets = {filter_set_id("", filters[name]): members for name, members in values.items()}
        sets |= {dataset_set_id(name): frozenset(normalised(members)) for name, members in case.datasets.items()}
        case_sets = CaseSets(sets)
        context = TransformContext("", "", case_sets, case_sets, self._open_sandbox())
        run = PipelineRun(
            transforms, build_transforms(transforms, TRANSFORMS, context), Deadline(time.monotonic, TIME_LIMIT_S)
        )
        records = [
            run.run(_batch(number, record), MAX_TRACE_BYTES).records[0] for number, record in enumerate(case.records)
        ]
        if any(record.unfinished_reason for record in records):
            self._cases_in_sandbox = 0  # the sandbox still runs the script, so the next case gets another one
        return CaseRun(self._checked, case, records, values, time.monotonic() - began)

    def _open_sandbox(self) -> Sandbox | None:
        """Return the sandbox for the next case; None when the pipeline has no script."""
        if not any(transform.is_script for transform in self._checked.transforms):
            return None
        if self._cases_in_sandbox % CASES_PER_SANDBOX == 0:
            self._stack.close()
            self._sandbox = self._stack.enter_context(Sandbox(command=deno_command(jit=False), spare=False))
        self._cases_in_sandbox += 1
        return self._sandbox

    def _read_values(self, name: str) -> frozenset[str]:
        desired = self._desired.values.get(name)
        return frozenset(desired.normalised() if desired else ())


def _check(pipeline: DesiredPipeline) -> CompiledPipeline:
    """Check a pipeline as the server does, and compile its scripts.

    Raises InvalidPipeline and SandboxFailed.
    """
    checker = PipelineChecker(
        bindings=Bindings(), transform_types=TRANSFORMS, validate_script=validate_script, new_id=new_id
    )
    # Only an installation knows which zerolag streams it has, so every source is checked as an ordinary stream.
    source = {**pipeline.config["source"], "is_zerolag": False}
    try:
        sent = NewPipelineConfig.model_validate({**pipeline.config, "source": source})
        transforms = checker.check_new(sent).config.transforms
    except ValidationError as error:
        faults = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
        raise InvalidPipeline("\n".join(f"{where}: {message}" for where, message in faults)) from None
    except InvalidInput as error:
        lines = [f"{_place(fault.pointer, pipeline)}: {fault.detail}" for fault in error.faults]
        raise InvalidPipeline("\n".join(lines or [error.detail])) from None
    script_paths = {each.uid: pipeline.script_labels.get(each.name or "", "") for each in transforms}
    return CompiledPipeline(transforms, script_paths)


def _place(pointer: str, pipeline: DesiredPipeline) -> str:
    """Convert a JSON pointer to a place in the files.

    A transform is named by its name, and a script by its path.
    """
    parts = pointer.split("/")[2:]
    if parts[:1] != ["transforms"] or len(parts) < 2:
        return ".".join(parts)
    name = pipeline.config["transforms"][int(parts[1])]["name"]
    label = pipeline.script_labels.get(name, "")
    return " ".join(filter(None, (f"transforms.{name}", f"({label})" if label else "")))


def _batch(number: int, value: bytes) -> RecordBatch:
    """Return a record of a case as a batch.

    Its offset is its number, so that all records differ.
    """
    columns: list[list[Any]] = [[value], [None], [RECORD_TIME_MS], [0], [number], [0]]
    return RecordBatch.of("cases", *columns)
