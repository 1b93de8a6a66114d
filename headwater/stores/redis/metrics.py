"""Metrics in Valkey or Redis.

All keys of a deployment share one hash tag, so that one script can write all of them.

{dm:ID}:who          hash    ownership: `GROUP/PARTITION:owner` is the worker that counts a partition,
                             `GROUP/PARTITION:mark` is the offset up to which records are counted, and `at` is the time
                             at which a mark last advanced
{dm:ID}:RES:START    hash    one interval of RES seconds: the count of each metric `NAME`, and for each histogram of
                             times the count of each bin `NAME:BIN`

Every key expires some time after the end of the last time range that contains it.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import cast

from headwater.model.metric import (
    TIME_RANGES,
    CountType,
    Histogram,
    Interval,
    MetricsDelta,
    PartitionCounts,
    TimeRange,
    Times,
    TimeType,
)
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument

SLACK_S = 600
"""How much longer than needed keys are kept, because clocks differ."""
_TTL_MS = [1000 * (one.seconds + one.resolution_s + SLACK_S) for one in TIME_RANGES]
_OWNERSHIP_TTL_MS = max(_TTL_MS)
_ACQUIRE, _WRITE = Script.load("acquire_metric_partitions"), Script.load("write_metrics")


class RedisMetrics:
    """MetricStore on one server, replica group or cluster.

    Thread-safe. now: seconds since the epoch.
    """

    def __init__(self, client: Client, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now

    def acquire_partitions(
        self, deployment_id: str, group: str, owner: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """See MetricStore."""
        args: list[Argument] = [owner, _OWNERSHIP_TTL_MS, *(f"{group}/{partition}" for partition in partitions)]
        marks: list[bytes | None] = self._client.run(_ACQUIRE, [_ownership_key(deployment_id)], args)
        return {p: int(mark) for p, mark in zip(partitions, marks, strict=True) if mark is not None}

    def write(self, deployment_id: str, group: str, owner: str, delta: MetricsDelta) -> frozenset[int]:
        """See MetricStore."""
        keys = [_ownership_key(deployment_id), *(_key(deployment_id, one, delta.minute) for one in TIME_RANGES)]
        args: list[Argument] = [owner, _OWNERSHIP_TTL_MS, *_TTL_MS, len(delta.partitions)]
        for partition, span in delta.partitions.items():
            args += _span_words(f"{group}/{partition}", span)
        refused: list[bytes] = self._client.run(_WRITE, keys, [*args, *_time_words(delta.times)])
        return frozenset(int(field.rpartition(b"/")[2]) for field in refused)

    def read(self, deployment_id: str, time_range: TimeRange, now_s: float) -> Mapping[int, Interval]:
        """See MetricStore."""
        starts = time_range.starts(now_s)
        found = self._client.pipeline([("HGETALL", _key(deployment_id, time_range, start)) for start in starts])
        return {start: _interval(words) for start, words in zip(starts, found, strict=True) if words}

    def last_progress(self, deployment_id: str) -> float | None:
        """See MetricStore."""
        at: bytes | None = self._client.call("HGET", _ownership_key(deployment_id), "at")
        return None if at is None else float(at)

    def drop(self, deployment_id: str) -> None:
        """See MetricStore.

        Intervals that were written late, after an outage, may be left until they expire.
        """
        now_s = self._now()
        intervals = (_key(deployment_id, one, start) for one in TIME_RANGES for start in _kept(one, now_s))
        self._client.call("UNLINK", _ownership_key(deployment_id), *intervals)


def _ownership_key(deployment_id: str) -> str:
    return f"{{dm:{deployment_id}}}:who"


def _key(deployment_id: str, time_range: TimeRange, at: int) -> str:
    """Return the key of the interval that contains a time, in seconds since the epoch."""
    resolution = time_range.resolution_s
    return f"{{dm:{deployment_id}}}:{resolution}:{at // resolution * resolution}"


def _kept(time_range: TimeRange, now_s: float) -> Iterable[int]:
    """Return the starts of all intervals that may be stored."""
    starts = time_range.starts(now_s)
    slack_s = SLACK_S + 2 * time_range.resolution_s
    return range(starts[0] - slack_s // starts.step * starts.step, starts[-1] + slack_s, starts.step)


def _span_words(field: str, span: PartitionCounts) -> list[Argument]:
    counts: list[Argument] = [word for name, count in span.counts.items() if count for word in (name, count)]
    return [field, span.end, len(counts), *counts]


def _time_words(times: Times) -> list[Argument]:
    return [
        word
        for name, histogram in times.items()
        for bin_, count in histogram.items()
        for word in (f"{name}:{bin_}", count)
    ]


def _interval(words: Sequence[bytes]) -> Interval:
    interval = Interval()
    for field, count in zip(words[::2], words[1::2], strict=True):
        name, _, bin_ = field.decode().partition(":")
        if bin_:
            interval.times.setdefault(cast("TimeType", name), Histogram())[int(bin_)] = int(count)
        else:
            interval.counts[cast("CountType", name)] = int(count)
    return interval
