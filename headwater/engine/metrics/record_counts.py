"""The counts of the records of one partition."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from headwater.model.metric import CountType, NamedCounts, PartitionCounts


def _no_counts() -> defaultdict[str, int]:
    return defaultdict(int)


@dataclass(slots=True)
class RecordCounts:
    """The counts of the records of one partition, see PartitionCounts."""

    counts: Counter[CountType] = field(default_factory=Counter)
    named: defaultdict[str, int] = field(default_factory=_no_counts)
    totals: defaultdict[str, int] = field(default_factory=_no_counts)

    def add(self, later: "RecordCounts") -> None:
        """Add the counts of further records."""
        self.counts.update(later.counts)
        self.add_named(later.named)
        for name, count in later.totals.items():
            self.totals[name] += count

    def add_named(self, counts: NamedCounts) -> None:
        """Add further counts by name."""
        for name, count in counts.items():
            self.named[name] += count

    def up_to(self, end: int) -> PartitionCounts:
        """Return the counts for the metric store, with the offset after the last counted record."""
        return PartitionCounts(end, self.counts, self.named, self.totals)
