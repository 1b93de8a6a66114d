"""A batch on its way through the transforms of a pipeline."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from headwater.engine.transform_work import TransformWork
from headwater.model.dead_letter import LetterKind, header_text
from headwater.model.record import Failure, RecordBatch
from headwater.transforms.base import PendingBatch, Transform

RESULT_TIMEOUT_S = 0.25
"""How long `advance` waits for a result. A script may take longer: the worker polls its source between two calls."""


class FailedRecord(NamedTuple):
    """A record that a transform or sink could not process.

    Attributes:
        partition: The partition of the source record.
        offset: The offset of the source record.
        output_index: The index of the record among the outputs of its source record.
        failure: The reason.
    """

    partition: int
    offset: int
    output_index: int
    failure: Failure

    @property
    def kind(self) -> LetterKind:
        """The class and the place of the error, as the headers of the dead letter have them."""
        return LetterKind(header_text(self.failure.error), header_text(self.failure.component), self.failure.line)


class InFlightBatch:
    """A batch that was read and is not delivered yet.

    The records of dropped partitions are neither produced nor committed.

    Attributes:
        input: The batch as it was read. `exclude_dropped` removes records.
        output: The result of the last transform that has finished with the batch.
        finished_transforms: How many transforms have finished with the batch.
        failed_records: The records that a transform or sink could not process.
        work: What each finished transform did with the batch, for the metrics.
        logs: Lines that scripts wrote with `console.log`.
        read_at: When the batch was read, in monotonic seconds.
        total_wait_at_read_s: How long the worker had waited for Kafka or a store in total when it read the batch.
    """

    def __init__(
        self,
        batch: RecordBatch,
        transforms: Sequence[Transform],
        read_at: float,
        total_wait_at_read_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.input = batch
        self.output = batch
        self.read_at = read_at
        self.total_wait_at_read_s = total_wait_at_read_s
        self.finished_transforms = 0
        self.failed_records: list[FailedRecord] = []
        self.work: list[TransformWork] = []
        self.logs: list[str] = []
        self._clock = clock
        self._transform_started_at = read_at
        self._transforms = transforms
        self._pending: PendingBatch | None = None
        self._dropped: set[int] = set()
        self._end_positions = dict(batch.end_positions)
        self._start()

    @property
    def is_finished(self) -> bool:
        """Whether all transforms have finished with the batch."""
        return self.finished_transforms == len(self._transforms)

    def _start(self) -> None:
        if self.is_finished:
            return
        if not self.output or (self._dropped and self._dropped.issuperset(self.input.partitions)):
            self.finished_transforms = len(self._transforms)
        else:
            self._transform_started_at = self._clock()
            self._pending = self._transforms[self.finished_transforms].start(self.output)

    def advance(self, *, wait: bool) -> bool:
        """Take the result of the current transform, and start the next transform.

        Return False when there is no result yet. Raises RedisUnavailable (call again later), SandboxFailed.

        Args:
            wait: Whether to wait for the result, for at most RESULT_TIMEOUT_S.
        """
        pending = self._pending
        if pending is None:
            return False
        if wait:
            pending.wait(RESULT_TIMEOUT_S)
        if not pending.done():
            return False
        result = pending.result()
        took_s = self._clock() - self._transform_started_at
        self.work.append(TransformWork.of(self._transforms[self.finished_transforms].uid, self.output, result, took_s))
        self.failed_records += self._locate(self.output, result.failures)
        self.logs += result.logs
        self.output = result.output
        self.finished_transforms += 1
        self._pending = None
        self._start()
        return True

    @staticmethod
    def _locate(batch: RecordBatch, failures: Iterable[Failure]) -> list[FailedRecord]:
        return [FailedRecord(batch.partitions[f.row], batch.offsets[f.row], batch.indexes[f.row], f) for f in failures]

    def add_failures(self, failures: Iterable[Failure]) -> None:
        """Add the rows of `output` that a sink could not take to `failed_records`."""
        self.failed_records += self._locate(self.output, failures)

    def drop(self, partitions: Iterable[int]) -> None:
        """Drop partitions: their records are neither produced nor committed."""
        dropped = set(partitions)
        self._dropped |= dropped
        self._end_positions = {p: offset for p, offset in self._end_positions.items() if p not in dropped}

    def drop_all(self) -> None:
        """Drop all partitions of the batch."""
        self.drop(self.next_offsets().keys())

    def set_end_positions(self, positions: Mapping[int, int]) -> None:
        """Set the positions to commit with this batch, by partition.

        The batch may be followed by records that no batch contains: deleted records (a gap), control records, or dead
        letters that are not selected. The positions are after these records, so that no worker reads them again.
        """
        self._end_positions.update(positions)

    def exclude_dropped(self) -> None:
        """Remove the records of dropped partitions. Call it before the batch is produced."""
        if self._dropped:
            self.input, self.output = self.input.without(self._dropped), self.output.without(self._dropped)
            self.failed_records = [failed for failed in self.failed_records if failed.partition not in self._dropped]
            self.work = [each.filter(lambda partition, _: partition not in self._dropped) for each in self.work]

    def next_offsets(self) -> dict[int, int]:
        """Return the position to commit after this batch, by partition."""
        return {partition: offset + 1 for partition, offset in self.input.last_offsets().items()} | self._end_positions

    def output_bytes(self) -> int:
        """Return the size of the values of `output`."""
        return len(self.output.values.buffer)

    def source_rows(self) -> dict[tuple[int, int], int]:
        """Return the row of each source record in `input`, by partition and offset."""
        rows = zip(self.input.partitions, self.input.offsets, strict=True)
        return {position: row for row, position in enumerate(rows)}
