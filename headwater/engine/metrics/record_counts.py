"""The counts of the records of one partition."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from headwater.model.metric import CountType, PartitionCounts, TransformCounts


def _no_counts() -> defaultdict[str, int]:
    return defaultdict(int)


@dataclass(slots=True)
class RecordCounts:
    """The counts of the records of one partition.

    `to_partition_counts` returns them for the metric store.

    Attributes:
        counts: How many records were counted, by metric type.
        transform_counts: The counts of single transforms, by `transform_metric_name`.
        letter_totals: How many new dead letters there are of each kind, by `letter_total_name`
            (model/dead_letter.py).
    """

    counts: Counter[CountType] = field(default_factory=Counter)
    transform_counts: defaultdict[str, int] = field(default_factory=_no_counts)
    letter_totals: defaultdict[str, int] = field(default_factory=_no_counts)

    def add(self, later: "RecordCounts") -> None:
        """Add the counts of further records."""
        self.counts.update(later.counts)
        self.add_transforms(later.transform_counts)
        for name, count in later.letter_totals.items():
            self.letter_totals[name] += count

    def add_transforms(self, counts: TransformCounts) -> None:
        """Add counts of single transforms."""
        for name, count in counts.items():
            self.transform_counts[name] += count

    def to_partition_counts(self, end: int) -> PartitionCounts:
        """Return the counts for the metric store, with the offset after the last counted record."""
        return PartitionCounts(end, self.counts, self.transform_counts, self.letter_totals)
