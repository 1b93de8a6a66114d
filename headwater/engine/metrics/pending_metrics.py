"""Counts and times of produced records that are not written to the metric store yet."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

from headwater.engine.in_flight_batch import InFlightBatch
from headwater.model.metric import CountType, Histogram, MetricsDelta, PartitionCounts, TimeType
from headwater.model.record import Failure, Int64Column, count_values
from headwater.sources.base import Positions


class ProducedBatch(NamedTuple):
    """The positions of the source records of a produced batch, as columns that can be filtered.

    Attributes:
        partitions: The partitions of the records that were read.
        offsets: The offsets of the records that were read.
        output_partitions: The partitions of the source records of the outputs.
        output_offsets: The offsets of the source records of the outputs.
        failures: The partition and offset of each failed record, and whether it failed in a sink, not in a transform.
        sink_count: How many sinks each output was sent to.
    """

    partitions: Int64Column
    offsets: Int64Column
    output_partitions: Int64Column
    output_offsets: Int64Column
    failures: Sequence[tuple[int, int, bool]]
    sink_count: int

    @classmethod
    def of(cls, in_flight: InFlightBatch, produced: int, sink_failures: Sequence[Failure]) -> "ProducedBatch":
        """Return the positions of a batch after `Delivery.deliver`.

        Args:
            in_flight: The batch.
            produced: The first result of `deliver`.
            sink_failures: The second result of `deliver`.
        """
        source, output, failed_records = in_flight.input, in_flight.output, in_flight.failed_records
        # The failures of transforms come before the failures of sinks.
        first_sink_failure = len(failed_records) - len(sink_failures)
        failures = [
            (failed.partition, failed.offset, number >= first_sink_failure)
            for number, failed in enumerate(failed_records)
        ]
        sink_count = (produced + len(sink_failures)) // len(output) if output else 0
        return cls(source.partitions, source.offsets, output.partitions, output.offsets, failures, sink_count)

    def __len__(self) -> int:
        return len(self.partitions)

    def filter(self, predicate: Callable[[int, int], bool]) -> "ProducedBatch":
        """Return the records for which `predicate(partition, offset)` is true."""
        read = [predicate(*position) for position in zip(self.partitions, self.offsets, strict=True)]
        output = [predicate(*position) for position in zip(self.output_partitions, self.output_offsets, strict=True)]
        return ProducedBatch(
            Int64Column("q", compress(self.partitions, read)),
            Int64Column("q", compress(self.offsets, read)),
            Int64Column("q", compress(self.output_partitions, output)),
            Int64Column("q", compress(self.output_offsets, output)),
            [failure for failure in self.failures if predicate(failure[0], failure[1])],
            self.sink_count,
        )

    def end_offsets(self) -> Positions:
        """Return the position after the last record of each partition."""
        return {p: offset + 1 for p, offset in dict(zip(self.partitions, self.offsets, strict=True)).items()}

    def counts(self) -> dict[int, Counter[CountType]]:
        """Return the counts of each partition."""
        received = count_values(self.partitions)
        outputs = received if self.output_partitions is self.partitions else count_values(self.output_partitions)
        counts: dict[int, Counter[CountType]] = {
            p: Counter({"messages_received": n, "messages_sent": outputs[p] * self.sink_count})
            for p, n in received.items()
        }
        for partition, _, by_sink in self.failures:
            counts[partition]["output_error" if by_sink else "processor_error"] += 1
            counts[partition]["messages_sent"] -= by_sink
        return counts


@dataclass(slots=True)
class PendingMetrics:
    """Counts and times that are not written to the metric store yet.

    Attributes:
        counts: The counts of each partition.
        end_offsets: By partition, the position up to which records are counted.
        times: The histograms of times.
        uncounted: Batches that are not counted, because an earlier worker may have counted some of their records.
    """

    counts: dict[int, Counter[CountType]] = field(default_factory=dict)
    end_offsets: Positions = field(default_factory=dict)
    times: dict[TimeType, Histogram] = field(default_factory=dict)
    uncounted: list[ProducedBatch] = field(default_factory=list)

    def count(self, counts: Mapping[int, Counter[CountType]], end_offsets: Positions) -> None:
        """Add the counts of a batch by partition. `end_offsets` are the positions after the batch."""
        for partition, partition_counts in counts.items():
            self.counts.setdefault(partition, Counter()).update(partition_counts)
            self._extend_to(partition, end_offsets[partition])

    def _extend_to(self, partition: int, end: int) -> None:
        self.end_offsets[partition] = max(end, self.end_offsets.get(partition, 0))

    def time(self, name: TimeType) -> Histogram:
        """Return the histogram of a metric."""
        return self.times.setdefault(name, Histogram())

    def count_uncounted(self, counted_offsets: Mapping[int, int]) -> Positions:
        """Count the uncounted records from `counted_offsets` on.

        Earlier records are counted already.

        Returns the positions at which the uncounted batches end, by partition. `end_offsets` may be higher: it includes
        counts from before the worker read these records again.
        """
        batch_ends: Positions = {}
        for batch in self.uncounted:
            batch_ends |= batch.end_offsets()
            new_records = batch.filter(lambda partition, offset: offset >= counted_offsets.get(partition, 0))
            self.count(new_records.counts(), new_records.end_offsets())
        self.uncounted.clear()
        return batch_ends

    def drop(self, partitions: Collection[int]) -> None:
        """Discard the counts of these partitions."""
        for partition in partitions:
            self.counts.pop(partition, None)
            self.end_offsets.pop(partition, None)
        self.drop_uncounted(dict.fromkeys(partitions, 0))

    def drop_uncounted(self, positions: Positions) -> None:
        """Discard the uncounted records from these positions on."""
        self.uncounted = [
            batch.filter(lambda partition, offset: partition not in positions or offset < positions[partition])
            for batch in self.uncounted
        ]

    def add(self, later: "PendingMetrics") -> None:
        """Add the metrics of records that were produced later."""
        for partition, counts in later.counts.items():
            self.counts.setdefault(partition, Counter()).update(counts)
            self._extend_to(partition, later.end_offsets[partition])
        for name, histogram in later.times.items():
            self.time(name).update(histogram)
        self.uncounted += later.uncounted

    def to_delta(self, minute: int) -> MetricsDelta:
        """Return the metrics, without the uncounted records, as one write for the metric store."""
        counts = {p: PartitionCounts(self.end_offsets[p], counts) for p, counts in self.counts.items()}
        return MetricsDelta(minute, counts, self.times)
