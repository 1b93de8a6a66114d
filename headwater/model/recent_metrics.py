"""The metrics of a deployment in the last hour, as the list of configurations shows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model.metric import TIME_RANGES, TimeRange

LAST_HOUR: TimeRange = TIME_RANGES[0]


@dataclass(frozen=True, slots=True)
class RecentMetrics:
    """The counts of each minute of LAST_HOUR, and the mean age of the data.

    The oldest minute comes first.

    Attributes:
        received: The number of records that were read from the source.
        sent: The number of records that sinks have acknowledged, counted once for each sink.
        errors: The number of records that a transform or a sink could not process.
        data_age_ms: The mean age of the data over all minutes; None when nothing was measured.
    """

    received: Sequence[int]
    sent: Sequence[int]
    errors: Sequence[int]
    data_age_ms: float | None
