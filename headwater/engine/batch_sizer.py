"""Adapts the size of batches to the speed of a pipeline."""

from headwater.engine.in_flight_batch import InFlightBatch


class BatchSizer:
    """Adapts the size of batches to three targets: TARGET_CPU_S, TARGET_S and TARGET_BYTES.

    The targets are for the CPU time and the duration of the transforms, and for the size of the outputs. A batch may
    exceed a target; the next batches are then smaller. Where many workers share a machine, a batch takes longer, though
    it uses no more CPU time. Smaller batches would not help then: they cost more CPU time per record. So the target for
    the duration is longer.

    MIN_RECORDS follows from the 50 ms of CPU that a script may spend on one record, and the 8 MB that it may return. A
    worker starts with MIN_RECORDS: a worker that was killed for memory would otherwise be killed at the same records
    again.
    """

    TARGET_CPU_S = 0.2
    TARGET_S = 0.4
    TARGET_BYTES = 32 << 20
    MIN_RECORDS, MAX_RECORDS = 4, 4000

    def __init__(self) -> None:
        self.limit = self.MIN_RECORDS
        self._changed_at = float("-inf")
        self._last_end = float("-inf")
        self._last_cpu_s = 0.0

    def update(self, in_flight: InFlightBatch, now: float, *, total_wait_s: float, total_cpu_s: float) -> None:
        """Adapt the limit after a batch was delivered at `now`. An empty batch changes nothing.

        The duration of the transforms excludes the waits of the worker, and the time before the previous batch was
        delivered. A batch that waited behind others therefore seems to take no time. Such batches must not raise the
        limit again and again, so after a change the limit grows only with a batch that was read after this change.

        Args:
            in_flight: The batch.
            now: The present time of the clock that also set `in_flight.read_at`, in seconds.
            total_wait_s: How long the worker has waited for Kafka or a store in total.
            total_cpu_s: The CPU time that the worker and its scripts have used in total.
        """
        end, start = now - total_wait_s, in_flight.read_at - in_flight.total_wait_at_read_s
        count = len(in_flight.input)
        if not count:  # all partitions of the batch were dropped while it was in flight
            return
        took_s = end - max(start, self._last_end)
        cpu_s = min(took_s, total_cpu_s - self._last_cpu_s)
        self._last_end, self._last_cpu_s = end, total_cpu_s
        overload = max(cpu_s / self.TARGET_CPU_S, took_s / self.TARGET_S, in_flight.output_bytes() / self.TARGET_BYTES)
        limit = self.limit
        if overload > 1:
            limit = max(self.MIN_RECORDS, min(self.limit, int(count / overload)))
        elif count >= self.limit and start >= self._changed_at:
            limit = min(self.MAX_RECORDS, self.limit * 2)
        if limit != self.limit:
            self.limit, self._changed_at = limit, end
