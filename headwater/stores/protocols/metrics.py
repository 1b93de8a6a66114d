"""The protocol of the store of metrics."""

from collections.abc import Collection, Mapping
from typing import Protocol

from headwater.model.metric import Interval, MetricsDelta, TimeRange


class MetricStore(Protocol):
    """Metrics of deployments. Workers write them, the API reads them.

    Counts are exact: for each partition of a consumer group the store holds the worker that owns the counting, and the
    mark, which is the offset up to which records are counted. Data expires some time after its range has passed.
    """

    def acquire_partitions(
        self, deployment_id: str, group: str, owner: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """Make `owner` the only writer of these partitions.

        Later writes of earlier owners are rejected. Return the marks of the partitions that have one.
        """

    def write(self, deployment_id: str, group: str, owner: str, delta: MetricsDelta) -> frozenset[int]:
        """Add metrics and advance the marks atomically.

        Return the partitions whose counts were rejected. The counts of a partition are rejected when another owner has
        acquired the partition. Counts up to a mark that is already reached are ignored, so a write whose reply was lost
        can be repeated unchanged. Histograms of times are added when any counts were added, or when the write contains
        no counts.
        """

    def read(self, deployment_id: str, time_range: TimeRange, now_s: float) -> Mapping[int, Interval]:
        """Return the metrics of a range, by the start of each interval.

        Empty intervals are left out.
        """

    def last_progress(self, deployment_id: str) -> float | None:
        """Return when a mark last advanced, in seconds since the epoch.

        Returns None if none did in the last week.
        """

    def drop(self, deployment_id: str) -> None:
        """Remove all metrics of a deployment. The caller must ensure that none of its workers runs."""
