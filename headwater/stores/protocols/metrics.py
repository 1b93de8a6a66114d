"""The protocol of the store of metrics."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from headwater.model.metric import Interval, MetricsDelta, TimeRange, Total
from headwater.model.recent_metrics import RecentMetrics


class MetricStore(Protocol):
    """The metrics of deployments. Workers write them, and the API reads them.

    Counts are exact: for each partition of a consumer group, the store records which worker may write its counts, and
    the counted offset, which is the offset up to which records are counted. Metrics expire some time after the end of
    the last time range that contains them, except for the totals of dead letters.
    """

    def acquire_partitions(
        self, deployment_id: str, group: str, writer: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """Make `writer` the only writer of these partitions.

        Later writes of earlier writers are rejected. Return the counted offset of each partition that has one.
        """

    def write(self, deployment_id: str, group: str, writer: str, delta: MetricsDelta) -> frozenset[int]:
        """Add metrics and advance the counted offsets atomically.

        Return the partitions whose counts were rejected, because another writer has acquired the partition. Counts up
        to an offset that is counted already are ignored. Histograms of durations are added when a counted offset
        advanced, or when the write contains no partitions. So a write whose reply was lost can be repeated unchanged,
        except that a write without partitions adds its durations again.
        """

    def restart_counting(self, deployment_id: str, group: str, counted_offsets: Mapping[int, int]) -> None:
        """Set the counted offsets of partitions whose positions were moved.

        Records that are read again then count again. Later writes of earlier writers are rejected. The caller must
        ensure that no worker of the group runs.
        """

    def drop_group(self, deployment_id: str, group: str) -> None:
        """Remove the writers and the counted offsets of a consumer group that is not used any more.

        The caller must ensure that no worker of the group runs.
        """

    def read(self, deployment_id: str, time_range: TimeRange, now_s: float) -> Mapping[int, Interval]:
        """Return the metrics of a time range, by the start of each interval.

        Empty intervals are left out.
        """

    def recent(self, deployment_ids: Sequence[str], now_s: float) -> Sequence[RecentMetrics]:
        """Return the metrics of the last hour of each deployment, in one round trip.

        The mean data age leaves out what an older version of Headwater wrote, which stored no sums of data ages.
        """

    def letter_totals(self, deployment_id: str) -> Mapping[str, Total]:
        """Return how many dead letters of each kind a deployment has had, by `letter_total_name`.

        The totals never expire; `drop` removes them. A deployment has about MAX_LETTER_TOTALS totals at most. Further
        kinds share one total, whose name ends with `/other`.
        """

    def last_progress(self, deployment_id: str) -> float | None:
        """Return when records were last counted, in seconds since the epoch.

        The writes of a redrive, which only advance counted offsets or count dead letters, do not change the
        time. Returns None when the time is unknown: no records were counted, or the metrics have expired.
        """

    def drop(self, deployment_id: str) -> None:
        """Remove all metrics of a deployment. The caller must ensure that none of its workers runs."""
