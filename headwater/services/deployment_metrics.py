"""Reads the metrics of a deployment as time series or in total."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from headwater.brokers.base import TopicOffsets
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import Deployment, worker_group
from headwater.model.metric import (
    COUNT_TYPES,
    METRIC_TYPES,
    TRANSFORM_METRIC_TYPES,
    CountType,
    DurationType,
    Histogram,
    Interval,
    MetricType,
    TimeRange,
    TransformMetricType,
    parse_transform_metric_name,
    transform_metric_name,
)
from headwater.services.ids import Now
from headwater.services.lag_cache import stored_lag
from headwater.services.optional_reads import OptionalReads
from headwater.stores.protocols.metrics import MetricStore

MIN_DEPLOYED_TIME = timedelta(seconds=1)
"""The shortest time over which a rate per minute is computed."""

Point = tuple[datetime, float]
"""The start of an interval, and the value in it."""


@dataclass(frozen=True, slots=True)
class MetricsTotals:
    """The metrics of a time range in total.

    Attributes:
        total: The counts and histograms of the whole range.
        minutes: For how many minutes of the range the pipeline was deployed.
    """

    total: Interval
    minutes: float

    def per_minute(self, name: CountType) -> float:
        """Return the count per minute."""
        return self.total.counts[name] / self.minutes

    def share_of_received(self, name: CountType) -> float:
        """Return the count as a share of the received records, from 0 to 1.

        Returns 0 when no record was received. A record can be counted several times, so the share is capped at 1.
        """
        received = self.total.counts["messages_received"]
        return min(self.total.counts[name] / received, 1.0) if received else 0.0

    def histogram(self, name: MetricType) -> Histogram:
        """Return the histogram of a metric of durations; empty when nothing was measured."""
        return next((times for metric, times in self.total.times.items() if metric == name), Histogram())


class DeploymentMetrics:
    """Reads the metrics of deployments.

    `series`, `series_by_transform` and `totals` may block and raise RedisUnavailable.

    Args:
        bindings: Where this installation reads each stream: a Kafka topic, or Google Pub/Sub.
        read_lag: Reads the lag of a consumer group on a Kafka cluster of the bindings; None is the installation's own
            cluster. It may block and raises BrokerUnavailable.
        read_ends: Reads the end offsets of a topic on such a cluster, likewise.
    """

    def __init__(
        self,
        *,
        store: MetricStore,
        bindings: Bindings,
        read_lag: Callable[[KafkaAccess | None, str], int | None],
        read_ends: Callable[[KafkaAccess | None, str], TopicOffsets | None],
        now: Now,
    ) -> None:
        self._store = store
        self._bindings = bindings
        self._read_lag = read_lag
        self._read_ends = read_ends
        self._now = now
        self._lags = {cluster: OptionalReads[int]("lag") for cluster in (None, *bindings.kafka_accesses())}
        self._progress = OptionalReads[datetime]("last progress")

    def series(
        self, deployment: Deployment, time_range: TimeRange, types: Collection[MetricType]
    ) -> Mapping[MetricType, Sequence[Point]]:
        """Return the points of each type, in the order of METRIC_TYPES.

        A type without measurements has no points.
        """
        starts, intervals = self._read(deployment, time_range)
        return {
            name: _count_points(starts, {start: interval.counts[name] for start, interval in intervals.items()})
            if name in COUNT_TYPES
            else _time_points(
                {start: interval.times.get(cast("DurationType", name)) for start, interval in intervals.items()}
            )
            for name in METRIC_TYPES
            if name in types
        }

    def series_by_transform(
        self, deployment: Deployment, time_range: TimeRange, types: Collection[TransformMetricType]
    ) -> Mapping[tuple[str, TransformMetricType], Sequence[Point]]:
        """Return the points of each transform and type.

        The transforms of the running revision come first, in the order of the pipeline. Transforms follow that had
        records in the time range, but were removed since.
        """
        starts, intervals = self._read(deployment, time_range)
        transforms = deployment.effective_revision.config.transform_identities
        uids = dict.fromkeys(transform.uid for transform in transforms)
        uids |= dict.fromkeys(_measured_transforms(intervals))
        return {
            (uid, name): _transform_points(transform_metric_name(uid, name), starts, intervals)
            for uid in uids
            for name in TRANSFORM_METRIC_TYPES
            if name in types
        }

    def _read(self, deployment: Deployment, time_range: TimeRange) -> tuple[Sequence[int], Mapping[int, Interval]]:
        """Return the starts since the first measurement, and the intervals with measurements."""
        now_s = self._now().timestamp()
        intervals = self._store.read(deployment.id, time_range, now_s)
        return [start for start in time_range.starts(now_s) if intervals and start >= min(intervals)], intervals

    def totals(self, deployment: Deployment, time_range: TimeRange) -> MetricsTotals:
        """Return the metrics of a time range in total."""
        now = self._now()
        total = Interval()
        for interval in self._store.read(deployment.id, time_range, now.timestamp()).values():
            total.add(interval.counts, interval.times)
        start = _utc(time_range.starts(now.timestamp())[0])
        deployed = max(now - max(start, deployment.created_at), MIN_DEPLOYED_TIME)
        return MetricsTotals(total, deployed / timedelta(minutes=1))

    def lag(self, deployment: Deployment) -> "Future[int | None]":
        """Read how many offsets of the source are not committed yet.

        For a paused deployment, these are the offsets after the stored positions, since Kafka may have forgotten the
        committed ones. The result is None when the lag is unknown, and for a source outside of Kafka. Does not block.
        """
        revision = deployment.effective_revision
        source, group = revision.config.source, worker_group(deployment.id, revision.source_epoch)
        binding = self._bindings.find(source.chain, source.entity, zerolag=source.is_zerolag)
        if not isinstance(binding, KafkaTopic):
            unknown_lag: Future[int | None] = Future()
            unknown_lag.set_result(None)
            return unknown_lag
        stored = deployment.positions.groups.get(revision.source_epoch)
        if stored is not None:
            return self._lags[binding.access].submit(
                group, lambda: stored_lag(binding.topic, stored, self._read_ends(binding.access, binding.topic))
            )
        return self._lags[binding.access].submit(group, lambda: self._read_lag(binding.access, group))

    def last_progress(self, deployment: Deployment) -> "Future[datetime | None]":
        """Read the time of the last commit of offsets; None when it is unknown. Does not block."""
        return self._progress.submit(deployment.id, lambda: self._last_progress(deployment.id))

    def close(self) -> None:
        """End the threads of the optional reads."""
        for lags in self._lags.values():
            lags.close()
        self._progress.close()

    def _last_progress(self, deployment_id: str) -> datetime | None:
        epoch_s = self._store.last_progress(deployment_id)
        return None if epoch_s is None else _utc(epoch_s)


def _utc(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)


def _measured_transforms(intervals: Mapping[int, Interval]) -> list[str]:
    """Return the uids of the transforms with measurements, sorted."""
    keys = {parse_transform_metric_name(name) for interval in intervals.values() for name in interval.transform_counts}
    return sorted({key[0] for key in keys if key is not None})


def _transform_points(name: str, starts: Sequence[int], intervals: Mapping[int, Interval]) -> list[Point]:
    """Return the points of a metric of one transform, which has counts or times."""
    times = {start: interval.transform_times.get(name) for start, interval in intervals.items()}
    counts = {start: interval.transform_counts[name] for start, interval in intervals.items()}
    return _time_points(times) or _count_points(starts, counts)


def _count_points(starts: Sequence[int], counts: Mapping[int, int]) -> list[Point]:
    """Return the count in each interval; an interval without measurements has the count 0."""
    return [(_utc(start), counts.get(start, 0)) for start in starts] if any(counts.values()) else []


def _time_points(times: Mapping[int, Histogram | None]) -> list[Point]:
    """Return the median time in each interval in which the time was measured."""
    medians = {start: histogram.percentile(50) for start, histogram in times.items() if histogram is not None}
    return [(_utc(start), median) for start, median in sorted(medians.items()) if median is not None]
