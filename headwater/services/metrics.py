"""What was measured of a deployment: as series over time, and in sum."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.model.deployment import Deployment, source_group
from headwater.model.flow import Source
from headwater.model.metric import COUNT_TYPES, METRIC_TYPES, CountType, Histogram, Interval, MetricType, TimeRange
from headwater.services.ids import Clock
from headwater.services.optional_reads import OptionalReads
from headwater.stores.base import MetricStore

SHORTEST = timedelta(seconds=1)
"""A rate per minute is of at least that long."""

Point = tuple[datetime, float]
"""The start of an interval, and the value in it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A range in sum. minutes: how many of the range the pipeline was deployed."""

    whole: Interval
    minutes: float

    def per_minute(self, name: CountType) -> float:
        """Records per minute."""
        return self.whole.counts[name] / self.minutes

    def rate(self, name: CountType) -> float:
        """Share of the records received, 0 to 1; 0 without any. One record can count several times, but not over 1."""
        received = self.whole.counts["messages_received"]
        return min(self.whole.counts[name] / received, 1.0) if received else 0.0

    def times(self, name: MetricType) -> Histogram:
        """The histogram of a time."""
        return next((times for known, times in self.whole.times.items() if known == name), Histogram())


class Metrics:
    """`series` and `summary` raise SetStoreUnavailable. lag: of a source and group; raises BrokerUnavailable."""

    def __init__(self, store: MetricStore, lag: Callable[[Source, str], int | None], now: Clock) -> None:
        self._store = store
        self._lag = lag
        self._now = now
        self._lags = OptionalReads[int]("lag")
        self._progress = OptionalReads[datetime]("last progress")

    def series(
        self, deployment: Deployment, time_range: TimeRange, types: Collection[MetricType]
    ) -> Mapping[MetricType, Sequence[Point]]:
        """Points by type, in the order of METRIC_TYPES; a type of which nothing was measured has none.

        Counts have a point for every interval from the first in which the pipeline did anything; times for those in
        which they were measured.
        """
        now_s = self._now().timestamp()
        found = self._store.read(deployment.id, time_range, now_s)
        active = [start for start in time_range.starts(now_s) if found and start >= min(found)]
        return {name: _points(name, active, found) for name in METRIC_TYPES if name in types}

    def summary(self, deployment: Deployment, time_range: TimeRange) -> Summary:
        """The range as one."""
        now = self._now()
        whole = Interval()
        for interval in self._store.read(deployment.id, time_range, now.timestamp()).values():
            whole.add(interval.counts, interval.times)
        first = _time(time_range.starts(now.timestamp())[0])
        deployed = max(now - max(first, deployment.created_at), SHORTEST)
        return Summary(whole, deployed / timedelta(minutes=1))

    def lag(self, deployment: Deployment) -> "Future[int | None]":
        """How many offsets of the source are not committed yet; None when that is not known. Does not block."""
        revision = deployment.effective_revision
        source, group = revision.config.source, source_group(deployment.id, revision.source_epoch)
        return self._lags.ask(group, lambda: self._lag(source, group))

    def last_progress(self, deployment: Deployment) -> "Future[datetime | None]":
        """When positions were committed last; None when that is not known. Does not block."""
        return self._progress.ask(deployment.id, lambda: self._last_progress(deployment.id))

    def close(self) -> None:
        """End the threads of the optional reads."""
        self._lags.close()
        self._progress.close()

    def _last_progress(self, deployment_id: str) -> datetime | None:
        at = self._store.last_progress(deployment_id)
        return None if at is None else _time(at)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _points(name: MetricType, starts: Sequence[int], found: Mapping[int, Interval]) -> list[Point]:
    if name in COUNT_TYPES:
        counts = [found[start].counts[name] if start in found else 0 for start in starts]
        return [(_time(start), count) for start, count in zip(starts, counts, strict=True)] if any(counts) else []
    medians = {
        start: interval.times[name].percentile(50) for start, interval in found.items() if name in interval.times
    }
    return [(_time(start), median) for start, median in sorted(medians.items()) if median is not None]
