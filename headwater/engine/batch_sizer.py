"""Adapts the size of batches to the speed of a pipeline."""

from headwater.engine.in_flight_batch import InFlightBatch


class BatchSizer:
    """Adapts the size of batches, so that transforms take TARGET_S at most.

    The outputs of a batch have TARGET_BYTES at most. MIN_RECORDS follows from the 50 ms of CPU that a script may spend
    on one record, and the 8 MB that it may return. A worker starts with MIN_RECORDS: a worker that was killed for
    memory would otherwise be killed at the same records again.

    Attributes:
        limit: How many records the next batch may have.
    """

    TARGET_S = 0.2
    TARGET_BYTES = 32 << 20
    MIN_RECORDS, MAX_RECORDS = 4, 2000

    def __init__(self) -> None:
        self.limit = self.MIN_RECORDS
        self._last_end = float("-inf")

    def update(self, in_flight: InFlightBatch, now: float, total_wait_s: float) -> None:
        """Adapt the limit after a batch was delivered at `now`. An empty batch changes nothing.

        The duration of the transforms excludes the waits of the worker, and the time before the previous batch was
        delivered.

        Args:
            in_flight: The batch.
            now: The present time of the clock that also set `in_flight.read_at`, in seconds.
            total_wait_s: How long the worker has waited for Kafka or a store in total.
        """
        end, start = now - total_wait_s, in_flight.read_at - in_flight.total_wait_at_read_s
        count = len(in_flight.input)
        if not count:  # all partitions of the batch were dropped while it was in flight
            return
        took_s = end - max(start, self._last_end)
        self._last_end = end
        overload = max(took_s / self.TARGET_S, in_flight.output_bytes() / self.TARGET_BYTES)
        if overload > 1:
            self.limit = max(self.MIN_RECORDS, min(self.limit, int(count / overload)))
        elif count >= self.limit:
            self.limit = min(self.MAX_RECORDS, self.limit * 2)
