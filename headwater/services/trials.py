"""Trying a configuration: the checks of create, and its real transforms on sample records. Nothing is saved."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from headwater.errors import SandboxFailed
from headwater.model.value_sets import filter_set
from headwater.model.flow import NewPipelineConfig
from headwater.model.record import RecordBatch
from headwater.model.transform import Transform as TransformConfig
from headwater.model.transform import output_to_script, output_index
from headwater.model.trial import TrialStep, Trial, TrialRecord
from headwater.sandbox.bigint_marks import remove_marks
from headwater.services.pipeline_checker import CheckedPipeline, PipelineChecker
from headwater.services.ids import Clock
from headwater.stores.trial_sets import TrialSets
from headwater.transforms.base import TransformContext, Transform

TIME_LIMIT_S = 10.0
"""How long the samples may take in all: an endless loop takes a second or two for each."""
MAX_ANSWER_BYTES = 8 << 20
_OVERHEAD_BYTES = 100
"""What an output or a line costs beside its text."""
_TOPIC = "samples"

Build = Callable[[Any, TransformContext], Transform]
OpenResources = Callable[[str], AbstractContextManager[TransformContext]]
"""For an owner, what transforms are built with: a sandbox, and the owner's datasets."""


class _Stopped(Exception):
    """The time or the room for the answer is used up; the text says which."""


@dataclass(slots=True)
class _Budget:
    clock: Callable[[], float]
    end_s: float
    left_bytes: int = MAX_ANSWER_BYTES

    def check_time(self) -> None:
        if self.clock() >= self.end_s:
            raise _Stopped(f"the records took more than {TIME_LIMIT_S:.0f} s in all")

    def spend(self, texts: Sequence[bytes | str]) -> None:
        self.left_bytes -= sum(map(len, texts)) + _OVERHEAD_BYTES * len(texts)
        if self.left_bytes < 0:
            raise _Stopped(f"the answer would be larger than {MAX_ANSWER_BYTES >> 20} MiB")


class Trials:
    """builders: by type of transform. now: the samples' time stamps; clock: monotonic seconds."""

    def __init__(
        self,
        checker: PipelineChecker,
        builders: Mapping[str, Build],
        open_resources: OpenResources,
        now: Clock,
        clock: Callable[[], float],
    ) -> None:
        self._checker = checker
        self._builders = builders
        self._open_resources = open_resources
        self._now = now
        self._clock = clock

    def run(self, owner: str, sent: NewPipelineConfig, samples: Sequence[bytes]) -> Trial:
        """Check a pipeline as create does, and pass each sample (JSON text) through its transforms, one by one.

        A filter's set has its `set_values`; `flow.contains` asks the owner's datasets. Blocks while the sandbox works,
        for TIME_LIMIT_S and a record's time at most. Raises InvalidInput, SandboxFailed, SetStoreUnavailable.
        """
        checked = self._checker.with_compile_cache().create(sent)
        if not samples:
            return Trial(checked.warnings, [])
        with self._open_resources(owner) as resources:
            transforms = self._build(checked, resources)
            budget = _Budget(self._clock, self._clock() + TIME_LIMIT_S)
            tried = [self._try(transforms, _batch(sample, i, self._now), budget) for i, sample in enumerate(samples)]
        return Trial(checked.warnings, tried)

    def _build(self, checked: CheckedPipeline, resources: TransformContext) -> list[tuple[TransformConfig, Transform]]:
        sets = TrialSets({filter_set(resources.config_id, uid): values for uid, values in checked.values.items()})
        with_samples = replace(resources, sets=sets)
        configs = checked.config.transforms
        built = []
        for place, config in enumerate(configs):
            given = replace(
                resources if config.type == "v8" else with_samples, output_to_script=output_to_script(configs, place)
            )
            built.append((config, self._builders[config.type](config, given)))
        return built

    def _try(
        self, transforms: Sequence[tuple[TransformConfig, Transform]], batch: RecordBatch, budget: _Budget
    ) -> TrialRecord:
        steps: list[TrialStep] = []
        try:
            for config, transform in transforms:
                if not batch:
                    break
                budget.check_time()
                outcome = transform.start(batch).result()
                outputs = _shown(outcome.output)
                budget.spend([*outputs, *outcome.logs])
                dropped = len(batch) - _kept(config, batch, outcome.output) - len(outcome.failures)
                steps.append(TrialStep(config.type, len(batch), dropped, outputs, outcome.failures, outcome.logs))
                batch = outcome.output
            outputs = _shown(batch)
            budget.spend(outputs)
        except _Stopped as stopped:
            return TrialRecord("unfinished", [], steps, str(stopped))
        if outputs:
            return TrialRecord("sent", outputs, steps)
        return TrialRecord("error" if any(step.failures for step in steps) else "dropped", [], steps)


def _batch(sample: bytes, number: int, now: Clock) -> RecordBatch:
    return RecordBatch.of(_TOPIC, [sample], [None], [int(now().timestamp() * 1000)], [0], [number], [0])


def _kept(config: TransformConfig, batch: RecordBatch, outputs: RecordBatch) -> int:
    """How many records of a step's batch have outputs; those of a script are numbered under their record's index."""
    if config.type != "v8":
        return len(outputs)
    kept = set(outputs.indexes)
    return sum(output_index(index, 0) in kept for index in batch.indexes)


def _shown(batch: RecordBatch) -> list[bytes]:
    """The records as JSON, also between scripts."""
    return [_json(remove_marks(value or b"") if batch.for_script else value) for value in batch.values]


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _json(value: bytes | None) -> bytes:
    """Raises SandboxFailed when a sandbox that is no longer ours returned what is no JSON: it is passed on as it is."""
    try:
        text = value or b""
        json.loads(text.decode(), parse_int=len, parse_float=len, parse_constant=_no_json)
    except RecursionError:
        raise _Stopped("a record is nested too deeply to be shown") from None
    except ValueError as error:
        raise SandboxFailed("The sandbox returned something that is no JSON.") from error
    return text
