"""Metrics in Valkey or Redis.

All keys of a deployment share one hash tag, so that one script can write all of them.

{dm:ID}:who          hash    ownership: `GROUP/PARTITION:owner` is the worker that counts a partition,
                             `GROUP/PARTITION:mark` is its counted offset, and `at` is the time at which records
                             were last counted, in seconds since the epoch
{dm:ID}:RES:START    hash    one interval of RES seconds: the count of each metric `NAME`, and for each histogram of
                             durations the count of each bin `NAME:BIN`. A name with a slash is a metric of one
                             transform (`transform_metric_name`), any other name is a metric type. `data_age/count` and
                             `data_age/sum` are the number and the sum (in ms) of the data ages. `recent`, which serves
                             the list of configurations, reads them instead of the bins
{dm:ID}:totals       hash    how many dead letters of each kind were written since the deployment began, by
                             `letter_total_name`
{dm:ID}:total-times  hash    when a total was first and last incremented, in ms: `NAME:first` and `NAME:last`

Every key except the last two expires some time after the end of the last time range that contains it.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import cast

from headwater.model.metric import (
    MAX_LETTER_TOTALS,
    TIME_RANGES,
    Counts,
    CountType,
    DurationHistograms,
    DurationType,
    Histogram,
    Interval,
    MetricsDelta,
    PartitionCounts,
    TimeRange,
    Total,
    TransformCounts,
    TransformDurationHistograms,
)
from headwater.model.recent_metrics import LAST_HOUR, RecentMetrics
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument

SLACK_S = 600
"""How much longer than needed keys are kept, because clocks differ."""
_TTL_MS = [1000 * (time_range.seconds + time_range.resolution_s + SLACK_S) for time_range in TIME_RANGES]
_OWNERSHIP_TTL_MS = max(_TTL_MS)
_AGE_COUNT, _AGE_SUM = "data_age/count", "data_age/sum"
_RECENT_FIELDS = ("messages_received", "messages_sent", "processor_error", "output_error", _AGE_COUNT, _AGE_SUM)
_ACQUIRE, _WRITE = Script.load("acquire_metric_partitions"), Script.load("write_metrics")
_RESTART = Script.load("restart_metric_partitions")


class RedisMetrics:
    """MetricStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client, now: Callable[[], float] = time.time) -> None:
        """now: Returns the present time in seconds since the epoch."""
        self._client = client
        self._now = now

    def acquire_partitions(
        self, deployment_id: str, group: str, writer: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """See MetricStore."""
        args: list[Argument] = [writer, _OWNERSHIP_TTL_MS, *(f"{group}/{partition}" for partition in partitions)]
        offsets: list[bytes | None] = self._client.run(_ACQUIRE, [_ownership_key(deployment_id)], args)
        return {p: int(offset) for p, offset in zip(partitions, offsets, strict=True) if offset is not None}

    def write(self, deployment_id: str, group: str, writer: str, delta: MetricsDelta) -> frozenset[int]:
        """See MetricStore."""
        interval_keys = (_interval_key(deployment_id, time_range, delta.minute) for time_range in TIME_RANGES)
        args: list[Argument] = [writer, _OWNERSHIP_TTL_MS, *_TTL_MS, MAX_LETTER_TOTALS, len(delta.partitions)]
        for partition, counts in delta.partitions.items():
            args += _count_arguments(f"{group}/{partition}", counts)
        args += [*_time_arguments(delta.times), *_mean_arguments(delta.times), *_time_arguments(delta.transform_times)]
        keys = [_ownership_key(deployment_id), *interval_keys, *_totals_keys(deployment_id)]
        rejected: list[bytes] = self._client.run(_WRITE, keys, args)
        return frozenset(int(field.rpartition(b"/")[2]) for field in rejected)

    def restart_counting(self, deployment_id: str, group: str, counted_offsets: Mapping[int, int]) -> None:
        """See MetricStore."""
        args: list[Argument] = [_OWNERSHIP_TTL_MS]
        for partition, offset in counted_offsets.items():
            args += (f"{group}/{partition}", offset)
        self._client.run(_RESTART, [_ownership_key(deployment_id)], args)

    def drop_group(self, deployment_id: str, group: str) -> None:
        """See MetricStore."""
        key, start = _ownership_key(deployment_id), f"{group}/".encode()
        stored: list[bytes] = self._client.call("HKEYS", key)
        fields = [field for field in stored if field.startswith(start)]
        if fields:
            self._client.call("HDEL", key, *fields)

    def read(self, deployment_id: str, time_range: TimeRange, now_s: float) -> Mapping[int, Interval]:
        """See MetricStore."""
        starts = time_range.starts(now_s)
        commands = [("HGETALL", _interval_key(deployment_id, time_range, start)) for start in starts]
        replies = self._client.pipeline(commands)
        return {start: _interval(reply) for start, reply in zip(starts, replies, strict=True) if reply}

    def recent(self, deployment_ids: Sequence[str], now_s: float) -> Sequence[RecentMetrics]:
        """See MetricStore."""
        starts = LAST_HOUR.starts(now_s)
        groups = [
            [("HMGET", _interval_key(deployment_id, LAST_HOUR, start), *_RECENT_FIELDS) for start in starts]
            for deployment_id in deployment_ids
        ]
        return [_recent(replies) for replies in self._client.pipelines(groups)] if groups else []

    def letter_totals(self, deployment_id: str) -> Mapping[str, Total]:
        """See MetricStore."""
        counts, times = (
            dict(zip(reply[::2], reply[1::2], strict=True))
            for reply in self._client.pipeline([("HGETALL", key) for key in _totals_keys(deployment_id)])
        )
        return {
            name.decode(): Total(int(count), *(int(times[name + end]) / 1000 for end in (b":first", b":last")))
            for name, count in counts.items()
            if name + b":last" in times
        }

    def last_progress(self, deployment_id: str) -> float | None:
        """See MetricStore."""
        at: bytes | None = self._client.call("HGET", _ownership_key(deployment_id), "at")
        return None if at is None else float(at)

    def drop(self, deployment_id: str) -> None:
        """See MetricStore.

        Intervals that were written late, after an outage, may be left until they expire.
        """
        now_s = self._now()
        interval_keys = (
            _interval_key(deployment_id, time_range, start)
            for time_range in TIME_RANGES
            for start in _stored_starts(time_range, now_s)
        )
        self._client.call("UNLINK", _ownership_key(deployment_id), *_totals_keys(deployment_id), *interval_keys)


def _ownership_key(deployment_id: str) -> str:
    return f"{{dm:{deployment_id}}}:who"


def _totals_keys(deployment_id: str) -> tuple[str, str]:
    """Return the keys of the totals, and of their first and last times."""
    return f"{{dm:{deployment_id}}}:totals", f"{{dm:{deployment_id}}}:total-times"


def _interval_key(deployment_id: str, time_range: TimeRange, time_s: int) -> str:
    """Return the key of the interval that contains a time, in seconds since the epoch."""
    resolution_s = time_range.resolution_s
    return f"{{dm:{deployment_id}}}:{resolution_s}:{time_s // resolution_s * resolution_s}"


def _stored_starts(time_range: TimeRange, now_s: float) -> Iterable[int]:
    """Return the starts of all intervals that may be stored."""
    starts = time_range.starts(now_s)
    slack_s = SLACK_S + 2 * time_range.resolution_s
    return range(starts[0] - slack_s // starts.step * starts.step, starts[-1] + slack_s, starts.step)


def _count_arguments(field: str, counts: PartitionCounts) -> list[Argument]:
    of_interval = [*_name_arguments(counts.counts), *_name_arguments(counts.transform_counts)]
    of_totals = _name_arguments(counts.letter_totals)
    return [field, counts.end, len(of_interval), *of_interval, len(of_totals), *of_totals]


def _name_arguments(counts: Counts | TransformCounts) -> list[Argument]:
    arguments: list[Argument] = []
    for name, count in counts.items():
        if count:
            arguments += (name, count)
    return arguments


def _time_arguments(times: DurationHistograms | TransformDurationHistograms) -> list[Argument]:
    arguments: list[Argument] = []
    for name, histogram in times.items():
        for bin_, count in histogram.items():
            arguments += (f"{name}:{bin_}", count)
    return arguments


def _mean_arguments(times: DurationHistograms) -> list[Argument]:
    """Return the fields from which the mean of the data ages is computed without their bins."""
    ages = times.get("data_age")
    if not ages:
        return []
    return [_AGE_COUNT, ages.total(), _AGE_SUM, round(ages.total() * (ages.mean() or 0.0))]


def _recent(replies: Sequence[Sequence[bytes | None]]) -> RecentMetrics:
    """Return the metrics in the reply to HMGET of _RECENT_FIELDS of each minute."""
    rows = [[int(count or 0) for count in reply] for reply in replies]
    received, sent, processor_errors, output_errors, ages, age_sums = zip(*rows, strict=True)
    errors = [sum(both) for both in zip(processor_errors, output_errors, strict=True)]
    return RecentMetrics(received, sent, errors, sum(age_sums) / sum(ages) if any(ages) else None)


def _interval(reply: Sequence[bytes]) -> Interval:
    """Return the interval in the reply to HGETALL."""
    interval = Interval()
    for field, count in zip(reply[::2], reply[1::2], strict=True):
        name, _, bin_ = field.decode().partition(":")
        if name in (_AGE_COUNT, _AGE_SUM):
            continue
        if bin_ and "/" in name:
            interval.transform_times.setdefault(name, Histogram())[int(bin_)] = int(count)
        elif bin_:
            interval.times.setdefault(cast("DurationType", name), Histogram())[int(bin_)] = int(count)
        elif "/" in name:
            interval.transform_counts[name] = int(count)
        else:
            interval.counts[cast("CountType", name)] = int(count)
    return interval
