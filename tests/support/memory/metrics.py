"""In-memory implementation of the metric store, for tests. Metrics never expire."""

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.model.metric import MAX_LETTER_TOTALS, TIME_RANGES, Interval, MetricsDelta, TimeRange, Total
from headwater.model.recent_metrics import LAST_HOUR, RecentMetrics


@dataclass(slots=True)
class _Deployment:
    """The metrics of one deployment.

    Attributes:
        writers: The writer by group and partition.
        counted_offsets: The counted offset by group and partition.
        intervals: The intervals by resolution and start.
        letter_totals: The totals of dead letters by name.
    """

    writers: dict[tuple[str, int], str] = field(default_factory=dict)
    counted_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    intervals: dict[tuple[int, int], Interval] = field(default_factory=lambda: defaultdict(Interval))
    letter_totals: dict[str, Total] = field(default_factory=dict)
    last_progress: float | None = None

    def add_letter_totals(self, counts: Mapping[str, int], now: float) -> None:
        """Add dead letters to the totals, of which there are at most MAX_LETTER_TOTALS."""
        for sent_name, count in counts.items():
            is_full = sent_name not in self.letter_totals and len(self.letter_totals) >= MAX_LETTER_TOTALS
            name = f"{sent_name.partition('/')[0]}/other" if is_full else sent_name
            known = self.letter_totals.get(name, Total(0, now, now))
            self.letter_totals[name] = Total(known.count + count, known.first, now)

    def intervals_of(self, minute: int) -> list[Interval]:
        """Return the interval of each resolution that contains a minute."""
        resolutions = [time_range.resolution_s for time_range in TIME_RANGES]
        return [self.intervals[resolution_s, minute // resolution_s * resolution_s] for resolution_s in resolutions]


class MemoryMetrics:
    """Implements MetricStore in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deployments: dict[str, _Deployment] = defaultdict(_Deployment)

    def acquire_partitions(
        self, deployment_id: str, group: str, writer: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """See MetricStore."""
        with self._lock:
            deployment = self._deployments[deployment_id]
            deployment.writers.update({(group, partition): writer for partition in partitions})
            return {
                p: deployment.counted_offsets[group, p] for p in partitions if (group, p) in deployment.counted_offsets
            }

    def write(self, deployment_id: str, group: str, writer: str, delta: MetricsDelta) -> frozenset[int]:
        """See MetricStore."""
        with self._lock:
            deployment = self._deployments[deployment_id]
            rejected = frozenset(p for p in delta.partitions if deployment.writers.get((group, p), writer) != writer)
            new = [
                (p, counts)
                for p, counts in delta.partitions.items()
                if p not in rejected and deployment.counted_offsets.get((group, p), -1) < counts.end
            ]
            for partition, counts in new:
                deployment.writers[group, partition], deployment.counted_offsets[group, partition] = writer, counts.end
                deployment.last_progress = float(delta.minute)
                for interval in deployment.intervals_of(delta.minute):
                    interval.add(counts.counts, {})
                    interval.add_transforms(counts.transform_counts, {})
                deployment.add_letter_totals(counts.letter_totals, float(delta.minute))
            if new or not delta.partitions:
                for interval in deployment.intervals_of(delta.minute):
                    interval.add({}, delta.times)
                    interval.add_transforms({}, delta.transform_times)
            return rejected

    def restart_counting(self, deployment_id: str, group: str, counted_offsets: Mapping[int, int]) -> None:
        """See MetricStore."""
        with self._lock:
            deployment = self._deployments[deployment_id]
            for partition, offset in counted_offsets.items():
                deployment.writers[group, partition] = ""
                deployment.counted_offsets[group, partition] = offset

    def drop_group(self, deployment_id: str, group: str) -> None:
        """See MetricStore."""
        with self._lock:
            deployment = self._deployments[deployment_id]
            for by_partition in (deployment.writers, deployment.counted_offsets):
                for key in [key for key in by_partition if key[0] == group]:
                    by_partition.pop(key)

    def read(self, deployment_id: str, time_range: TimeRange, now_s: float) -> Mapping[int, Interval]:
        """See MetricStore."""
        with self._lock:
            intervals, resolution_s = self._deployments[deployment_id].intervals, time_range.resolution_s
            return {
                start: intervals[resolution_s, start]
                for start in time_range.starts(now_s)
                if (resolution_s, start) in intervals
            }

    def recent(self, deployment_ids: Sequence[str], now_s: float) -> Sequence[RecentMetrics]:
        """See MetricStore."""
        return [self._recent(deployment_id, now_s) for deployment_id in deployment_ids]

    def _recent(self, deployment_id: str, now_s: float) -> RecentMetrics:
        stored, total = self.read(deployment_id, LAST_HOUR, now_s), Interval()
        for interval in stored.values():
            total.add(interval.counts, interval.times)
        counts = [stored.get(start, Interval()).counts for start in LAST_HOUR.starts(now_s)]
        return RecentMetrics(
            received=[count["messages_received"] for count in counts],
            sent=[count["messages_sent"] for count in counts],
            errors=[count["processor_error"] + count["output_error"] for count in counts],
            data_age_ms=total.times["data_age"].mean() if "data_age" in total.times else None,
        )

    def letter_totals(self, deployment_id: str) -> Mapping[str, Total]:
        """See MetricStore."""
        with self._lock:
            return dict(self._deployments[deployment_id].letter_totals)

    def last_progress(self, deployment_id: str) -> float | None:
        """See MetricStore."""
        with self._lock:
            return self._deployments[deployment_id].last_progress

    def drop(self, deployment_id: str) -> None:
        """See MetricStore."""
        with self._lock:
            self._deployments.pop(deployment_id, None)
