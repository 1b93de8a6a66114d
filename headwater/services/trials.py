"""Runs trials of configurations on sample records.

A trial checks a configuration as create does, and runs its transforms on the records. It saves nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from headwater.engine.pipeline import build_transforms
from headwater.errors import SandboxFailed
from headwater.model.flow import NewPipelineConfig
from headwater.model.outputs import output_index
from headwater.model.record import RecordBatch
from headwater.model.transforms import Transform as TransformConfig
from headwater.model.trial import Trial, TrialRecord, TrialStep
from headwater.model.value_sets import filter_set_id
from headwater.sandbox.bigint_marks import remove_marks
from headwater.services.ids import Clock
from headwater.services.pipeline_checker import CheckedPipeline, PipelineChecker
from headwater.services.trial_sets import TrialSets
from headwater.transforms.base import Transform, TransformContext
from headwater.transforms.transform_type import TransformType

TIME_LIMIT_S = 10.0
"""The time limit of all samples together. An endless loop in a script takes a second or two per sample."""
MAX_RESPONSE_BYTES = 8 << 20
_OVERHEAD_BYTES = 100
"""The bytes that are added to the size of each output or log line."""
_TOPIC = "samples"

OpenContext = Callable[[str], AbstractContextManager[TransformContext]]
"""Opens the context in which the transforms of an owner are built: a sandbox, and the owner's datasets."""


class _LimitReached(Exception):
    """A limit of time, size or nesting is reached; the message says which."""


@dataclass(slots=True)
class _Budget:
    """The time and the bytes of the response that the samples may use."""

    clock: Callable[[], float]
    end_s: float
    remaining_bytes: int = MAX_RESPONSE_BYTES

    def check_time(self) -> None:
        if self.clock() >= self.end_s:
            raise _LimitReached(f"the records took more than {TIME_LIMIT_S:.0f} s in all")

    def spend(self, texts: Sequence[bytes | str]) -> None:
        self.remaining_bytes -= sum(map(len, texts)) + _OVERHEAD_BYTES * len(texts)
        if self.remaining_bytes < 0:
            raise _LimitReached(f"the response would be larger than {MAX_RESPONSE_BYTES >> 20} MiB")


class Trials:
    """Runs trials of configurations.

    Args:
        transform_types: The code of each type of transforms, by the name of the type.
        now: Returns the timestamp of sample records.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        *,
        checker: PipelineChecker,
        transform_types: Mapping[str, TransformType],
        open_context: OpenContext,
        now: Clock,
        clock: Callable[[], float],
    ) -> None:
        self._checker = checker
        self._transform_types = transform_types
        self._open_context = open_context
        self._now = now
        self._clock = clock

    def run(self, owner: str, sent: NewPipelineConfig, samples: Sequence[bytes]) -> Trial:
        """Check a pipeline as create does, and pass each sample through its transforms.

        A filter tests against its `set_values`; `flow.contains` uses the owner's datasets. The call blocks while the
        sandbox works, for TIME_LIMIT_S and the time of one sample at most. Raises InvalidInput, SandboxFailed,
        RedisUnavailable.

        Args:
            samples: The sample records as JSON texts.
        """
        checked = self._checker.with_compile_cache().check_new(sent)
        if not samples:
            return Trial(checked.warnings, [])
        with self._open_context(owner) as context:
            configs = checked.config.transforms
            transforms = list(zip(configs, self._build(checked, context), strict=True))
            budget = _Budget(self._clock, self._clock() + TIME_LIMIT_S)
            records = [
                self._run_sample(transforms, _batch_of(sample, i, self._now), budget)
                for i, sample in enumerate(samples)
            ]
        return Trial(checked.warnings, records)

    def _build(self, checked: CheckedPipeline, context: TransformContext) -> list[Transform]:
        values = {filter_set_id(context.config_id, uid): values for uid, values in checked.initial_values.items()}
        trial_context = replace(context, sets=TrialSets(values, context.sets))
        return build_transforms(checked.config.transforms, self._transform_types, trial_context)

    def _run_sample(
        self, transforms: Sequence[tuple[TransformConfig, Transform]], batch: RecordBatch, budget: _Budget
    ) -> TrialRecord:
        steps: list[TrialStep] = []
        try:
            for config, transform in transforms:
                if not batch:
                    break
                budget.check_time()
                outcome = transform.start(batch).result()
                outputs = _to_json(outcome.output)
                budget.spend([*outputs, *outcome.logs])
                dropped = len(batch) - _count_kept(config, batch, outcome.output) - len(outcome.failures)
                steps.append(TrialStep(config.type, len(batch), dropped, outputs, outcome.failures, outcome.logs))
                batch = outcome.output
            outputs = _to_json(batch)
            budget.spend(outputs)
        except _LimitReached as limit:
            return TrialRecord("unfinished", [], steps, str(limit))
        if outputs:
            return TrialRecord("sent", outputs, steps)
        return TrialRecord("error" if any(step.failures for step in steps) else "dropped", [], steps)


def _batch_of(sample: bytes, offset: int, now: Clock) -> RecordBatch:
    return RecordBatch.of(
        _TOPIC,
        values=[sample],
        keys=[None],
        timestamps=[int(now().timestamp() * 1000)],
        partitions=[0],
        offsets=[offset],
        indexes=[0],
    )


def _count_kept(config: TransformConfig, batch: RecordBatch, outputs: RecordBatch) -> int:
    """Count the records of a batch that have outputs.

    The index of a script's first output is output_index(record index, 0).
    """
    if not config.is_script:
        return len(outputs)
    kept = set(outputs.indexes)
    return sum(output_index(index, 0) in kept for index in batch.indexes)


def _to_json(batch: RecordBatch) -> list[bytes]:
    """Return the records of a batch as JSON.

    Between two scripts, the records have marks of BigInt values (sandbox/bigint_marks.py), which are removed here.
    """
    return [_require_json(remove_marks(value or b"") if batch.from_script else value) for value in batch.values]


def _reject_constant(constant: str) -> None:
    """Reject NaN and Infinity, which `json` accepts."""
    raise ValueError(f"{constant} is not JSON")


def _require_json(value: bytes | None) -> bytes:
    """Return the value, which the response contains unchanged.

    Raises SandboxFailed when the value is not JSON. Only a compromised sandbox returns such a value.
    """
    try:
        text = value or b""
        # Any cheap function may parse the numbers, because they are not used.
        json.loads(text.decode(), parse_int=len, parse_float=len, parse_constant=_reject_constant)
    except RecursionError:
        raise _LimitReached("a record is nested too deeply to be shown") from None
    except ValueError as error:
        raise SandboxFailed("The sandbox returned a record that is not JSON.") from error
    return text
