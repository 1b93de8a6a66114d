"""The counts of the records of one partition."""

from collections import Counter
from dataclasses import dataclass, field

from headwater.model.metric import CountType, PartitionCounts


@dataclass(slots=True)
class RecordCounts:
    """The counts of the records of one partition, see PartitionCounts."""

    counts: Counter[CountType] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)

    def add(self, later: "RecordCounts") -> None:
        """Add the counts of further records."""
        self.counts.update(later.counts)
        if later.named:
            self.named.update(later.named)
        if later.totals:
            self.totals.update(later.totals)

    def up_to(self, end: int) -> PartitionCounts:
        """Return the counts for the metric store, with the offset after the last counted record."""
        return PartitionCounts(end, self.counts, self.named, self.totals)
