"""Measures the counts and times of batches.

The metric store gets the counts just before the positions of their records are committed. The worker's own totals get
the counts when the commit has ended.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.metrics.event_time import EventTime
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pending_metrics import PendingMetrics, ProducedBatch
from headwater.engine.metrics.transform_counter import TransformCounter
from headwater.engine.metrics.transform_times import TransformTimes
from headwater.model.metric import (
    CountType,
    DurationType,
    Histogram,
    parse_transform_metric_name,
    transform_metric_name,
)
from headwater.model.record import Failure, count_values
from headwater.model.value_sets import SetId
from headwater.model.worker_protocol import TransformCounters
from headwater.sources.base import Positions
from headwater.stores.protocols.sets import SetLookup

MINUTE_S = 60
AGES_PER_BATCH = 8
"""How many records of a batch are sampled for `data_age`.

Parsing every record would take longer than reading and producing the batch.
"""


class TimedLookup:
    """A SetLookup that appends the duration of each lookup to `times`, in ms. Thread-safe."""

    def __init__(self, sets: SetLookup, times: deque[float], clock: Callable[[], float] = time.monotonic) -> None:
        self._sets = sets
        self._times = times
        self._clock = clock

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup."""
        began = self._clock()
        are_members = self._sets.contains_many(set_id, values)
        self._times.append(1000 * (self._clock() - began))
        return are_members


class _UnacknowledgedBatch(NamedTuple):
    """A produced batch whose records are not all acknowledged yet.

    Attributes:
        produced_up_to: The number of records produced since the last commit, up to and including this batch.
        timestamps: The timestamps of the source records in ms, and how many records have each.
        event_times: Sampled event times in ms, each with the number of records that it represents.
    """

    produced_up_to: int
    timestamps: Counter[int]
    event_times: list[tuple[float, int]]


class PipelineMetrics:
    """Measures the records of one worker.

    Records that are read again after a failure are counted once.

    Args:
        metrics_writer: Writes the metrics to the metric store.
        event_time: Reads the event time of records.
        lookup_times: The durations of set lookups in ms, from TimedLookup. This class removes them.
        epoch_s: Returns the seconds since the epoch.

    Attributes:
        totals: The counts of all records whose commit has ended. A failed commit has ended too, unless it was a
            transaction: the next commit includes its positions. The counts include records that an earlier worker has
            already counted in the metric store.
        times: The times of produced records, updated before and after each commit. Records that are read again after a
            failed commit may have their times twice.
        transform_totals: The counts of single transforms for the records in `totals`, by name (see
            transform_metric_name).
        transform_times_ms: By uid of a transform, the sum of the processing latencies of its records.
        batches: How many batches are in commits that have ended.
        rereads: How often this worker has read the records since the last commit again.
    """

    def __init__(
        self,
        metrics_writer: MetricsWriter,
        event_time: EventTime | None = None,
        lookup_times: deque[float] | None = None,
        epoch_s: Callable[[], float] = time.time,
    ) -> None:
        self.totals: Counter[CountType] = Counter()
        self.times: dict[DurationType, Histogram] = {}
        self.transform_totals: Counter[str] = Counter()
        self.transform_times_ms: dict[str, float] = {}
        self.batches = 0
        self.rereads = 0
        self._writer = metrics_writer
        self._event_time = event_time or EventTime(None)
        self._lookup_times = deque[float]() if lookup_times is None else lookup_times
        self._epoch_s = epoch_s
        self._pending = PendingMetrics()
        self._transform_times = TransformTimes()
        self._acknowledged: list[tuple[float, _UnacknowledgedBatch]] = []
        self._clear_uncommitted()

    def heartbeat_fields(self) -> dict[str, Any]:
        """Return the heartbeat's fields about committed records."""
        times = {name: dict(histogram) for name, histogram in self.times.items()}
        return {
            "committed_batches": self.batches,
            "counters": dict(self.totals),
            "times": times,
            "transforms": self._transform_fields(),
        }

    def _transform_fields(self) -> dict[str, TransformCounters]:
        counts: dict[str, dict[str, float]] = {
            uid: {"processing_ms": ms} for uid, ms in self.transform_times_ms.items()
        }
        for name, count in self.transform_totals.items():
            if key := parse_transform_metric_name(name):
                uid, metric_type = key
                counts.setdefault(uid, {})[metric_type] = count
        return {uid: TransformCounters.model_validate(fields) for uid, fields in counts.items()}

    def on_assigned(self, partitions: Iterable[int]) -> None:
        """Record that these partitions are assigned to this worker."""
        self._writer.on_assigned(partitions)

    def remove_partitions(self, partitions: Sequence[int]) -> None:
        """Remove partitions that were revoked or lost.

        The next worker of the partitions counts their uncommitted records.
        """
        self._pending.drop(partitions)
        self._writer.remove_partitions(partitions)
        for partition in partitions:
            self._uncommitted_totals.pop(partition, None)
        self._uncommitted_transforms.drop(partitions)

    def on_produced(
        self, in_flight: InFlightBatch, positions: Positions, produced: int, failures: list[Failure], took_s: float
    ) -> None:
        """Measure a batch that `Delivery.deliver` has produced.

        Args:
            in_flight: The batch.
            positions: The positions after the batch.
            produced: How many outputs were produced, counted once per sink: the first result of `deliver`.
            failures: The outputs that were not produced: the second result of `deliver`.
            took_s: The seconds from the reading of the batch until it was produced.
        """
        batch = ProducedBatch.of(in_flight, produced, failures)
        counts = batch.counts()
        for partition, partition_counts in counts.items():
            self._uncommitted_totals.setdefault(partition, Counter()).update(partition_counts.counts)
        self._uncommitted_transforms.add(batch.work)
        self._uncommitted_batches += 1
        if self._writer.are_all_new(positions):
            self._pending.count(counts, positions, batch.work)
        else:
            self._pending.kept_batches.append(batch)
        if batch.record_count:
            self._pending.time_histogram("processing_latency").add(1000 * took_s, batch.record_count)
            self._transform_times.add(batch.work)
        self._produced += produced + len(in_flight.failed_records)
        if in_flight.output:
            self._unacknowledged.append(
                _UnacknowledgedBatch(
                    self._produced, count_values(in_flight.output.timestamps), self._event_times(in_flight)
                )
            )

    def _event_times(self, in_flight: InFlightBatch) -> list[tuple[float, int]]:
        """Return the event times of sampled outputs in ms, and how many outputs each represents.

        A record without an event time counts with its timestamp in Kafka.
        """
        output, source, row, times = in_flight.output, in_flight.input, 0, []
        step = -(-len(output) // AGES_PER_BATCH)
        for sample in range(0, len(output), step):
            partition, offset = output.partitions[sample], output.offsets[sample]
            row = source.offsets.index(offset, row)  # outputs are in the order of their source records
            while source.partitions[row] != partition:
                row = source.offsets.index(offset, row + 1)
            event_time_ms = self._event_time.read(source.values[row])
            time_ms = float(source.timestamps[row]) if event_time_ms is None else event_time_ms
            times.append((time_ms, min(step, len(output) - sample)))
        return times

    @property
    def awaits_acknowledgements(self) -> bool:
        """Whether produced records may be unacknowledged."""
        return bool(self._unacknowledged)

    def on_acknowledged(self, outstanding: int) -> None:
        """Record that all produced records except the last `outstanding` ones are acknowledged."""
        now_ms = 1000 * self._epoch_s()
        while self._unacknowledged and self._unacknowledged[0].produced_up_to <= self._produced - outstanding:
            self._acknowledged.append((now_ms, self._unacknowledged.popleft()))

    def _measure_acknowledged(self) -> None:
        """Measure the times of all acknowledged batches together, which is cheaper."""
        if not self._acknowledged:
            return
        latencies, weights, ages, age_weights = [], [], [], []
        for now_ms, batch in self._acknowledged:
            latencies.append(now_ms - np.fromiter(batch.timestamps.keys(), np.int64, len(batch.timestamps)))
            weights.append(np.fromiter(batch.timestamps.values(), np.int64, len(batch.timestamps)))
            ages += [now_ms - time_ms for time_ms, _ in batch.event_times]
            age_weights += [count for _, count in batch.event_times]
        self._pending.time_histogram("total_latency").add_many(np.concatenate(latencies), np.concatenate(weights))
        self._pending.time_histogram("data_age").add_many(np.array(ages), np.array(age_weights))
        self._acknowledged.clear()

    def before_commit(self, *, ignore_retry_delay: bool) -> None:
        """Write all metrics so far.

        Called just before the positions of all produced records are committed.

        Args:
            ignore_retry_delay: Whether to write even during the retry delay after a failed write.
        """
        while self._lookup_times:
            self._pending.time_histogram("lookup_latency").add(self._lookup_times.popleft())
        self._pass_to_writer()
        self._writer.flush(ignore_retry_delay=ignore_retry_delay)

    def _pass_to_writer(self) -> None:
        """Pass the pending metrics to the metrics writer."""
        self._measure_acknowledged()
        self._measure_transforms()
        pending, self._pending = self._pending, PendingMetrics()
        for name, histogram in pending.times.items():
            self.times.setdefault(name, Histogram()).update(histogram)
        pending.times.pop("lookup_latency", None)
        if pending.counts or pending.kept_batches or pending.times:
            self._writer.add(int(self._epoch_s()) // MINUTE_S * MINUTE_S, pending)

    def _measure_transforms(self) -> None:
        for uid, times in self._transform_times.take().items():
            self._pending.transform_time_histogram(transform_metric_name(uid, "processing_latency")).add_many(*times)
            self.transform_times_ms[uid] = self.transform_times_ms.get(uid, 0.0) + times.total_ms

    def after_commit(self, *, write_now: bool) -> None:
        """Add the records of the commit that has just ended to the totals.

        This is also called after a failed commit whose positions the source or the delivery commits with the next one,
        but not after a failed transaction.

        Args:
            write_now: Whether to write the metrics of the last acknowledgements now, because no later write may follow.
        """
        self.on_acknowledged(0)
        for counts in self._uncommitted_totals.values():
            self.totals.update(counts)
        for transform_counts in self._uncommitted_transforms.take().values():
            self.transform_totals.update(transform_counts)
        self.batches += self._uncommitted_batches
        self._clear_uncommitted()
        self._pass_to_writer()
        if write_now:
            self._writer.flush()

    def flush(self) -> None:
        """Write the metrics of the last acknowledgements, and retry earlier writes that failed."""
        self._pass_to_writer()
        self._writer.flush()

    def on_reread(self, positions: Positions) -> None:
        """Discard the metrics since the last commit.

        The worker reads these records again, from `positions` on.
        """
        self.rereads += 1
        self._pending = PendingMetrics()
        self._transform_times = TransformTimes()
        self._acknowledged.clear()
        self._writer.on_reread(positions)
        self._clear_uncommitted()

    def _clear_uncommitted(self) -> None:
        self._uncommitted_totals: dict[int, Counter[CountType]] = {}
        self._uncommitted_transforms = TransformCounter()
        self._uncommitted_batches = 0
        self._unacknowledged: deque[_UnacknowledgedBatch] = deque()
        self._produced = 0
