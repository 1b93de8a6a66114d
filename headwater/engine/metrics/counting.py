"""What is counted of delivered records, until the metric store has it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

from headwater.engine.chain import InFlightBatch
from headwater.model.metric import CountType, Histogram, Measured, Span, TimeType
from headwater.model.record import Failure, Numbers, occurrences
from headwater.sources.base import Positions


class Counted(NamedTuple):
    """Where the records of a delivered batch came from: columns, so that those below a mark can be taken out.

    partitions, offsets: records received. kept_partitions, kept_offsets: what each sink was given. rejected: partition,
    offset, and whether a sink (else a transform) could not take the record. copies: number of sinks.
    """

    partitions: Numbers
    offsets: Numbers
    kept_partitions: Numbers
    kept_offsets: Numbers
    rejected: Sequence[tuple[int, int, bool]]
    copies: int

    @classmethod
    def of(cls, in_flight: InFlightBatch, sent: int, refused: Sequence[Failure]) -> "Counted":
        """What `deliver` made of a batch: it notes what a sink refused behind what transforms rejected."""
        source, kept, by_sinks = in_flight.source, in_flight.kept, len(in_flight.rejected) - len(refused)
        rejected = [(r.partition, r.offset, at >= by_sinks) for at, r in enumerate(in_flight.rejected)]
        copies = (sent + len(refused)) // len(kept) if kept else 0
        return cls(source.partitions, source.offsets, kept.partitions, kept.offsets, rejected, copies)

    def __len__(self) -> int:
        return len(self.partitions)

    def only(self, stays: Callable[[int, int], bool]) -> "Counted":
        """The records whose partition and offset may stay."""
        read = [stays(*at) for at in zip(self.partitions, self.offsets, strict=True)]
        kept = [stays(*at) for at in zip(self.kept_partitions, self.kept_offsets, strict=True)]
        return Counted(
            Numbers("q", compress(self.partitions, read)),
            Numbers("q", compress(self.offsets, read)),
            Numbers("q", compress(self.kept_partitions, kept)),
            Numbers("q", compress(self.kept_offsets, kept)),
            [r for r in self.rejected if stays(r[0], r[1])],
            self.copies,
        )

    def ends(self) -> Positions:
        """The position after the last record of each partition."""
        return {p: offset + 1 for p, offset in dict(zip(self.partitions, self.offsets, strict=True)).items()}

    def counts(self) -> dict[int, Counter[CountType]]:
        """The counts of each partition."""
        received = occurrences(self.partitions)
        kept = received if self.kept_partitions is self.partitions else occurrences(self.kept_partitions)
        counts: dict[int, Counter[CountType]] = {
            p: Counter({"messages_received": n, "messages_sent": kept[p] * self.copies}) for p, n in received.items()
        }
        for partition, _, by_sink in self.rejected:
            counts[partition]["output_error" if by_sink else "processor_error"] += 1
            counts[partition]["messages_sent"] -= by_sink
        return counts


@dataclass(slots=True)
class Tally:
    """What is measured up to `ends`, by partition. undecided: batches of which some may be counted already."""

    counts: dict[int, Counter[CountType]] = field(default_factory=dict)
    ends: Positions = field(default_factory=dict)
    times: dict[TimeType, Histogram] = field(default_factory=dict)
    undecided: list[Counted] = field(default_factory=list)

    def count(self, counts: Mapping[int, Counter[CountType]], ends: Positions) -> None:
        """Add the counts of each partition of a batch that ends there."""
        for partition, of_partition in counts.items():
            self.counts.setdefault(partition, Counter()).update(of_partition)
            self._reach(partition, ends[partition])

    def _reach(self, partition: int, end: int) -> None:
        self.ends[partition] = max(end, self.ends.get(partition, 0))

    def time(self, name: TimeType) -> Histogram:
        """The histogram of a metric."""
        return self.times.setdefault(name, Histogram())

    def decide(self, marks: Mapping[int, int]) -> Positions:
        """Count the undecided batches, but for their records below the marks. Where these batches end, counted or not.

        Not where the tally ends: that may hold counts from before these records were read again.
        """
        read: Positions = {}
        for counted in self.undecided:
            read |= counted.ends()
            new = counted.only(lambda partition, offset: offset >= marks.get(partition, 0))
            self.count(new.counts(), new.ends())
        self.undecided.clear()
        return read

    def drop(self, partitions: Collection[int]) -> None:
        """Forget the counts of some partitions."""
        for partition in partitions:
            self.counts.pop(partition, None)
            self.ends.pop(partition, None)
        self.drop_undecided(dict.fromkeys(partitions, 0))

    def drop_undecided(self, positions: Positions) -> None:
        """Forget the undecided records from these positions on."""
        self.undecided = [
            counted.only(lambda partition, offset: offset < positions.get(partition, offset + 1))
            for counted in self.undecided
        ]

    def add(self, later: "Tally") -> None:
        """Add what was measured afterwards."""
        for partition, counts in later.counts.items():
            self.counts.setdefault(partition, Counter()).update(counts)
            self._reach(partition, later.ends[partition])
        for name, histogram in later.times.items():
            self.time(name).update(histogram)
        self.undecided += later.undecided

    def measured(self, minute: int) -> Measured:
        """It as one write."""
        spans = {partition: Span(self.ends[partition], counts) for partition, counts in self.counts.items()}
        return Measured(minute, spans, self.times)
