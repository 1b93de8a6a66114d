"""Runs the transforms of one pipeline on the records of a trial."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headwater.model.outputs import output_index
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.model.transforms import TransformConfig
from headwater.model.trial import TrialRecord, TrialStep, TrialTransformTotals
from headwater.sandbox.bigint_marks import remove_marks
from headwater.transforms.base import Transform

MAX_LOG_LINES = 100
"""The maximum number of log lines of a transform that the totals keep."""
OVERHEAD_BYTES = 100
"""The bytes that are added to the size of each output or log line that is shown."""
_POLL_S = 1.0

SourceNumbers = Sequence[int]
"""For each row of a batch, the number of its source record in the chunk."""


class LimitReached(Exception):
    """The time limit of the trial is reached; the message names it."""


class Deadline:
    """The time limit of a trial.

    Args:
        clock: Returns monotonic seconds.
        limit_s: The time limit, which begins now.
    """

    def __init__(self, clock: Callable[[], float], limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._end_s = clock() + limit_s

    def remaining_s(self) -> float:
        """Return the remaining time. Raises LimitReached when there is none."""
        remaining_s = self._end_s - self._clock()
        if remaining_s <= 0:
            raise LimitReached(f"the records took more than {self._limit_s:.0f} s in all")
        return remaining_s


@dataclass(slots=True)
class ChunkResult:
    """The results of some records that were processed together.

    Attributes:
        records: The result of each record.
        totals: The totals of each transform.
        limit: The limit that stopped the processing; empty when all records are complete.
        must_split: Whether the outputs are too large together, so that a transform did not run on some records.
    """

    records: list[TrialRecord]
    totals: list[TrialTransformTotals]
    limit: str = ""
    must_split: bool = False


class PipelineRun:
    """Runs the transforms of one pipeline on chunks of records.

    Args:
        configs: The configurations of the transforms.
        transforms: The transforms.
        deadline: The time limit.
    """

    def __init__(self, configs: Sequence[TransformConfig], transforms: Sequence[Transform], deadline: Deadline) -> None:
        self._transforms = list(zip(configs, transforms, strict=True))
        self._deadline = deadline

    def run(self, chunk: RecordBatch, max_trace_bytes: int | None) -> ChunkResult:
        """Run all transforms on some records.

        Blocks until the deadline at most. Raises SandboxFailed and RedisUnavailable.

        Args:
            chunk: The records, whose positions differ.
            max_trace_bytes: The size of the steps that the response has room for. The results of the first records
                have steps, until the steps exceed this size. The record that exceeds it keeps its steps, so that the
                caller notices that the response is full. With None, no result has steps.
        """
        records = [TrialRecord() for _ in range(len(chunk))]
        result = ChunkResult(records, [TrialTransformTotals(config.uid, config.type) for config, _ in self._transforms])
        numbers = {
            position: number for number, position in enumerate(zip(chunk.partitions, chunk.offsets, strict=True))
        }
        trace = _Trace(records, max_trace_bytes)
        batch, source_numbers = chunk, list(range(len(chunk)))
        for (config, transform), totals in zip(self._transforms, result.totals, strict=True):
            if not batch:
                break
            try:
                transformed = self._transform(transform, batch)
            except LimitReached as limit:
                result.limit = str(limit)
                for number in set(source_numbers):
                    records[number].unfinished_reason = result.limit
                return result
            output = transformed.output
            output_source_numbers = [
                numbers[position] for position in zip(output.partitions, output.offsets, strict=True)
            ]
            step = _Step(config, batch, source_numbers, transformed, output_source_numbers)
            step.add_to(totals)
            trace.add(step)
            for failure in step.failures:
                records[source_numbers[failure.row]].failures.append(failure)
            result.must_split = result.must_split or len(step.failures) < len(transformed.failures)
            batch, source_numbers = output, output_source_numbers
        for number, value in zip(source_numbers, json_values(batch), strict=True):
            records[number].outputs.append(value)
        return result

    def _transform(self, transform: Transform, batch: RecordBatch) -> TransformResult:
        """Run one transform.

        Raises LimitReached at the deadline. Then the transforms can't be used any more.
        """
        self._deadline.remaining_s()
        pending = transform.start(batch)
        while not pending.done():
            pending.wait(min(self._deadline.remaining_s(), _POLL_S))
        return pending.result()


@dataclass(slots=True)
class _Step:
    """One transform's input and output.

    Attributes:
        source_numbers: The numbers of the source records of the input.
        output_source_numbers: The numbers of the source records of the output.
    """

    config: TransformConfig
    batch: RecordBatch
    source_numbers: SourceNumbers
    result: TransformResult
    output_source_numbers: SourceNumbers

    @property
    def failures(self) -> list[Failure]:
        """The failures of records that the transform ran on.

        A failure with 0 attempts marks a record that it did not run on, because the outputs of the batch had become too
        large.
        """
        return [failure for failure in self.result.failures if failure.attempts > 0]

    def dropped_source_numbers(self) -> list[int]:
        """Return the source record of each input row that was dropped.

        Each record has an output index, which tells the outputs of one source record apart. A filter keeps the index of
        a row. When a row has the index i, the first output that a script makes of it has the index
        `output_index(i, 0)`. So a row that has not failed counts as dropped when its source record has no output with
        this index.
        """
        kept = set(zip(self.output_source_numbers, self.result.output.indexes, strict=True))
        failed = {failure.row for failure in self.result.failures}
        indexes: Iterable[int] = self.batch.indexes
        if self.config.is_script:
            indexes = (output_index(index, 0) for index in indexes)
        return [
            number
            for row, (number, index) in enumerate(zip(self.source_numbers, indexes, strict=True))
            if (number, index) not in kept and row not in failed
        ]

    def add_to(self, totals: TrialTransformTotals) -> None:
        """Add the step to the totals of the transform."""
        totals.received += len(self.batch)
        totals.sent += len(self.result.output)
        totals.errors += len(self.failures)
        totals.dropped += len(self.dropped_source_numbers())
        totals.logs += self.result.logs[: MAX_LOG_LINES - len(totals.logs)]


class _Trace:
    """Adds the steps of the transforms to the results of the first records.

    The steps of a chunk with several records have no log lines, because it is not known which record wrote a line.

    Args:
        records: The results of the records of a chunk.
        max_bytes: The size of the steps that the response has room for; None when no steps are wanted.
    """

    def __init__(self, records: Sequence[TrialRecord], max_bytes: int | None) -> None:
        self._records = records
        self._max_bytes = max_bytes or 0
        self._traced = 0 if max_bytes is None else len(records)
        """How many of the first records get further steps."""
        self._sizes = [0] * len(records)

    def add(self, step: _Step) -> None:
        """Add one step of all records."""
        if not self._traced:
            return
        received, dropped = Counter(step.source_numbers), Counter(step.dropped_source_numbers())
        outputs: dict[int, list[bytes | None]] = {}
        for number, value in zip(step.output_source_numbers, json_values(step.result.output), strict=True):
            if number < self._traced:
                outputs.setdefault(number, []).append(value)
        failures: dict[int, list[Failure]] = {}
        for failure in step.failures:
            failures.setdefault(step.source_numbers[failure.row], []).append(failure)
        logs = step.result.logs if len(self._records) == 1 else []
        for number in sorted(received):
            if number < self._traced:
                trial_step = TrialStep(
                    step.config.type,
                    received[number],
                    dropped[number],
                    outputs.get(number, []),
                    failures.get(number, []),
                    logs,
                )
                self._records[number].steps.append(trial_step)
                self._sizes[number] += shown_size(trial_step.outputs) + shown_size(logs)
        self._cut()

    def _cut(self) -> None:
        """End the trace at the record that does not fit.

        The records after it lose their steps. Without this, the steps of a chunk could fill the memory.
        """
        size = 0
        for number in range(self._traced):
            size += self._sizes[number]
            if size > self._max_bytes:
                for record in self._records[number + 1 : self._traced]:
                    record.steps.clear()
                self._traced = number
                return


def shown_size(texts: Sequence[bytes | str | None]) -> int:
    """Return how many bytes of a response some outputs or log lines take, about."""
    return sum(len(text or b"") for text in texts) + OVERHEAD_BYTES * len(texts)


def json_values(batch: RecordBatch) -> Sequence[bytes | None]:
    """Return the values of the records of a batch.

    Between two scripts, the records have marks of BigInt values (sandbox/bigint_marks.py), which are removed here.
    """
    return [remove_marks(value or b"") for value in batch.values] if batch.may_have_bigint_marks else list(batch.values)
