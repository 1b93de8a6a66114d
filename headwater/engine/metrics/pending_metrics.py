"""Counts and times of produced records that are not written to the metric store yet."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.engine.in_flight_batch import FailedRecord, InFlightBatch
from headwater.engine.metrics.record_counts import RecordCounts
from headwater.engine.metrics.transform_counter import TransformCounter
from headwater.engine.transform_work import PositionPredicate, RecordPositions, TransformWork
from headwater.model.dead_letter import letter_total_name
from headwater.model.metric import DurationType, Histogram, MetricsDelta
from headwater.model.record import Failure, count_values
from headwater.sources.base import Positions


class ProducedBatch(NamedTuple):
    """The positions of the source records of a produced batch, as columns that can be filtered.

    Attributes:
        read: The records that were read.
        outputs: The source records of the outputs.
        transform_failures: The records that a transform could not process.
        sink_failures: The records that a sink could not take.
        sink_count: How many sinks each output was sent to.
        work: What each transform did with the batch.
    """

    read: RecordPositions
    outputs: RecordPositions
    transform_failures: Sequence[FailedRecord]
    sink_failures: Sequence[FailedRecord]
    sink_count: int
    work: Sequence[TransformWork] = ()

    @classmethod
    def of(cls, in_flight: InFlightBatch, produced: int, sink_failures: Sequence[Failure]) -> "ProducedBatch":
        """Return the positions of a batch after `Delivery.deliver`.

        Args:
            in_flight: The batch.
            produced: The first result of `deliver`.
            sink_failures: The second result of `deliver`.
        """
        output, failed_records = in_flight.output, in_flight.failed_records
        # The failures of transforms come before the failures of sinks.
        first_sink_failure = len(failed_records) - len(sink_failures)
        return cls(
            RecordPositions.of(in_flight.input),
            RecordPositions.of(output),
            failed_records[:first_sink_failure],
            failed_records[first_sink_failure:],
            (produced + len(sink_failures)) // len(output) if output else 0,
            in_flight.work,
        )

    @property
    def record_count(self) -> int:
        """The number of records that were read."""
        return len(self.read.partitions)

    def filter(self, predicate: PositionPredicate) -> "ProducedBatch":
        """Return the records that the predicate selects."""
        return ProducedBatch(
            self.read.filter(predicate),
            self.outputs.filter(predicate),
            [failed for failed in self.transform_failures if predicate(failed.partition, failed.offset)],
            [failed for failed in self.sink_failures if predicate(failed.partition, failed.offset)],
            self.sink_count,
            [each.filter(predicate) for each in self.work],
        )

    def end_offsets(self) -> Positions:
        """Return the position after the last record of each partition."""
        return {p: offset + 1 for p, offset in dict(zip(*self.read, strict=True)).items()}

    def counts(self) -> dict[int, RecordCounts]:
        """Return the counts of each partition, without the counts of single transforms."""
        received = count_values(self.read.partitions)
        outputs = received if self.outputs.partitions is self.read.partitions else count_values(self.outputs.partitions)
        counts = {
            p: RecordCounts(Counter({"messages_received": n, "messages_sent": outputs[p] * self.sink_count}))
            for p, n in received.items()
        }
        for failed in self.transform_failures:
            counts[failed.partition].counts["processor_error"] += 1
        for failed in self.sink_failures:
            counts[failed.partition].counts["output_error"] += 1
            counts[failed.partition].counts["messages_sent"] -= 1
        for failed in (*self.transform_failures, *self.sink_failures):
            counts[failed.partition].letter_totals[letter_total_name(failed.kind)] += 1
        return counts


@dataclass(slots=True)
class PendingMetrics:
    """Counts and times that are not written to the metric store yet.

    Attributes:
        counts: The counts of each partition.
        transforms: The counts of single transforms, which `to_delta` adds to `counts`.
        end_offsets: By partition, the position up to which records are counted.
        times: The histograms of times.
        transform_times: The histograms of the times of single transforms.
        kept_batches: Batches that are not counted yet, because an earlier worker may have counted some of their
            records.
    """

    counts: dict[int, RecordCounts] = field(default_factory=dict)
    transforms: TransformCounter = field(default_factory=TransformCounter)
    end_offsets: Positions = field(default_factory=dict)
    times: dict[DurationType, Histogram] = field(default_factory=dict)
    transform_times: dict[str, Histogram] = field(default_factory=dict)
    kept_batches: list[ProducedBatch] = field(default_factory=list)

    def count(
        self, counts: Mapping[int, RecordCounts], end_offsets: Positions, work: Sequence[TransformWork] = ()
    ) -> None:
        """Count a batch.

        Args:
            counts: The counts of the batch by partition.
            end_offsets: The positions after the batch.
            work: What each transform did with the batch.
        """
        for partition, partition_counts in counts.items():
            self._add_counts(partition, partition_counts)
            self._extend_to(partition, end_offsets[partition])
        self.transforms.add(work)

    def _add_counts(self, partition: int, counts: RecordCounts) -> None:
        known = self.counts.get(partition)
        if known is None:
            self.counts[partition] = known = RecordCounts()
        known.add(counts)

    def _extend_to(self, partition: int, end: int) -> None:
        self.end_offsets[partition] = max(end, self.end_offsets.get(partition, 0))

    def time_histogram(self, name: DurationType) -> Histogram:
        """Return the histogram of a metric."""
        return self.times.setdefault(name, Histogram())

    def transform_time_histogram(self, name: str) -> Histogram:
        """Return the histogram of a metric of one transform, by `transform_metric_name`."""
        return self.transform_times.setdefault(name, Histogram())

    def count_kept_from(self, counted_offsets: Mapping[int, int]) -> Positions:
        """Count the kept records from `counted_offsets` on.

        Earlier records are counted already.

        Returns the positions at which the kept batches end, by partition. `end_offsets` may be higher: it includes
        counts from before the worker read these records again.
        """
        batch_ends: Positions = {}
        for batch in self.kept_batches:
            batch_ends |= batch.end_offsets()
            new_records = batch.filter(lambda partition, offset: offset >= counted_offsets.get(partition, 0))
            self.count(new_records.counts(), new_records.end_offsets(), new_records.work)
        self.kept_batches.clear()
        return batch_ends

    def drop(self, partitions: Collection[int]) -> None:
        """Discard the counts of these partitions."""
        self.transforms.drop(partitions)
        for partition in partitions:
            self.counts.pop(partition, None)
            self.end_offsets.pop(partition, None)
        self.drop_kept(dict.fromkeys(partitions, 0))

    def drop_kept(self, positions: Positions) -> None:
        """Discard the kept records from these positions on."""
        self.kept_batches = [
            batch.filter(lambda partition, offset: partition not in positions or offset < positions[partition])
            for batch in self.kept_batches
        ]

    def add(self, later: "PendingMetrics") -> None:
        """Add the metrics of records that were produced later."""
        for partition, counts in later.counts.items():
            self._add_counts(partition, counts)
            self._extend_to(partition, later.end_offsets[partition])
        self.transforms.add_counts(later.transforms)
        for name, histogram in later.times.items():
            self.time_histogram(name).update(histogram)
        for transform_metric, histogram in later.transform_times.items():
            self.transform_time_histogram(transform_metric).update(histogram)
        self.kept_batches += later.kept_batches

    def to_delta(self, minute: int) -> MetricsDelta:
        """Return the metrics, without the kept records, as one write for the metric store."""
        for partition, transform_counts in self.transforms.take().items():
            self.counts[partition].add_transforms(transform_counts)
        counts = {p: counts.to_partition_counts(self.end_offsets[p]) for p, counts in self.counts.items()}
        return MetricsDelta(minute, counts, self.times, self.transform_times)
