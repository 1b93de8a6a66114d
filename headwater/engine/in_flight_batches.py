"""Passes the batches in flight through the transforms, and bounds their number and size."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from headwater.engine.batch_sizer import BatchSizer
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.model.record import RecordBatch
from headwater.sources.base import Positions
from headwater.transforms.base import Transform

MAX_IN_FLIGHT = 3
"""How many batches may be in flight: one is in a set filter, one is in a script, and one is being delivered."""
MAX_IN_FLIGHT_DURING_COMMIT = 16
MAX_BYTES_DURING_COMMIT = 64 << 20
"""While a commit is running, up to MAX_IN_FLIGHT_DURING_COMMIT batches with up to this many bytes may be in flight.

These limits replace MAX_IN_FLIGHT only when batches have reached their maximum size, that is when transforms are cheap.
"""


class InFlightBatches:
    """The batches in flight, in the order in which they were read.

    No batch overtakes an earlier one.

    Args:
        clock: Monotonic seconds.

    Attributes:
        sizer: Adapts the number of records in a batch.
    """

    def __init__(self, transforms: Sequence[Transform], clock: Callable[[], float] = time.monotonic) -> None:
        self.sizer = BatchSizer()
        self._transforms = transforms
        self._clock = clock
        self._batches: deque[InFlightBatch] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def capacity(self, max_records: int, *, is_committing: bool) -> int:
        """Return how many records the next batch may have.

        Returns 0 when no further batch may be in flight.

        Args:
            max_records: How many records may be in flight in total.
            is_committing: Whether a commit is running, so that finished batches wait for its end.
        """
        may_read_ahead = is_committing and self._may_read_ahead()
        if len(self._batches) >= (MAX_IN_FLIGHT_DURING_COMMIT if may_read_ahead else MAX_IN_FLIGHT):
            return 0
        in_flight_records = sum(len(batch.input) for batch in self._batches)
        return max(0, min(self.sizer.limit, max_records - in_flight_records))

    def _may_read_ahead(self) -> bool:
        if self.sizer.limit < BatchSizer.MAX_RECORDS:
            return False
        columns = [column for batch in self._batches for column in (batch.input.values, batch.input.keys)]
        input_bytes = sum(len(column.buffer) for column in columns)
        output_bytes = sum(batch.output_bytes() for batch in self._batches)
        return input_bytes + output_bytes < MAX_BYTES_DURING_COMMIT

    def start(self, batch: RecordBatch, now: float, total_wait_s: float) -> None:
        """Start the transforms of a batch that was read at `now`.

        See InFlightBatch.total_wait_at_read_s.
        """
        self._batches.append(InFlightBatch(batch, self._transforms, now, total_wait_s, self._clock))

    def advance(self, *, wait: bool) -> None:
        """Pass the batches on from transform to transform, as far as results are available.

        Raises RedisUnavailable: call it again. The batches stay in flight, in their order.

        Args:
            wait: Whether to wait for the next result of the first batch.
        """
        max_finished_transforms = len(self._transforms)
        for batch in self._batches:
            while batch.finished_transforms < max_finished_transforms and batch.advance(wait=wait):
                wait = False
            wait = False
            max_finished_transforms = min(max_finished_transforms, batch.finished_transforms)

    @property
    def is_first_finished(self) -> bool:
        """Whether all transforms have finished with the first batch, so that it can be delivered."""
        return bool(self._batches) and self._batches[0].is_finished

    def pop_first(self) -> InFlightBatch:
        """Remove and return the first batch."""
        return self._batches.popleft()

    def is_slower_than(self, seconds: float, now: float) -> bool:
        """Return whether the first batch is unfinished after at least `seconds`.

        Args:
            seconds: The time since the batch was read.
            now: The present time of the clock that also set `read_at`, in seconds.
        """
        return bool(self._batches) and not self.is_first_finished and now - self._batches[0].read_at >= seconds

    def set_end_positions(self, positions: Positions) -> bool:
        """Set the positions to commit with the last batch (see InFlightBatch.set_end_positions).

        Returns False when no batch is in flight.
        """
        if not self._batches:
            return False
        self._batches[-1].set_end_positions(positions)
        return True

    def remove_partitions(self, partitions: Sequence[int]) -> None:
        """Drop the records of partitions that were revoked or lost from all batches."""
        for batch in self._batches:
            batch.drop(partitions)

    def drop_all(self) -> None:
        """Drop all records. The batches stay in flight, because their transforms have started."""
        for batch in self._batches:
            batch.drop_all()
