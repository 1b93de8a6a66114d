"""Metrics in Valkey or Redis. All keys of a deployment share one hash tag, so that one script writes all of them.

{dm:ID}:who          hash    `GROUP/PARTITION:owner`, `GROUP/PARTITION:mark`, and `at`: when a mark moved last
{dm:ID}:RES:START    hash    one interval of RES seconds: `NAME` → count, `NAME:BIN` → count

Every key expires some time after the last range that it is in.
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
from headwater.stores.redis.client import Client, Script, Word

SLACK_S = 600
"""How much longer than needed keys are kept: clocks differ."""
_TTL_MS = [1000 * (one.seconds + one.resolution_s + SLACK_S) for one in TIME_RANGES]
_WHO_TTL_MS = max(_TTL_MS)
_TAKE, _WRITE = Script.load("take_metrics"), Script.load("write_metrics")


class RedisMetrics:
    """MetricStore on one server, replica group or cluster. Thread-safe. now: seconds since the epoch."""

    def __init__(self, client: Client, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now

    def acquire_partitions(
        self, deployment_id: str, group: str, owner: str, partitions: Collection[int]
    ) -> Mapping[int, int]:
        """See MetricStore."""
        args: list[Word] = [owner, _WHO_TTL_MS, *(f"{group}/{partition}" for partition in partitions)]
        marks: list[bytes | None] = self._client.run(_TAKE, [_who(deployment_id)], args)
        return {p: int(mark) for p, mark in zip(partitions, marks, strict=True) if mark is not None}

    def write(self, deployment_id: str, group: str, owner: str, delta: MetricsDelta) -> frozenset[int]:
        """See MetricStore."""
        keys = [_who(deployment_id), *(_key(deployment_id, one, delta.minute) for one in TIME_RANGES)]
        args: list[Word] = [owner, _WHO_TTL_MS, *_TTL_MS, len(delta.spans)]
        for partition, span in delta.spans.items():
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
        at: bytes | None = self._client.call("HGET", _who(deployment_id), "at")
        return None if at is None else float(at)

    def drop(self, deployment_id: str) -> None:
        """See MetricStore. What was written late, after an outage, may be left; it expires."""
        now_s = self._now()
        intervals = (_key(deployment_id, one, start) for one in TIME_RANGES for start in _kept(one, now_s))
        self._client.call("UNLINK", _who(deployment_id), *intervals)


def _who(deployment_id: str) -> str:
    return f"{{dm:{deployment_id}}}:who"


def _key(deployment_id: str, time_range: TimeRange, at: int) -> str:
    """The interval of a time."""
    resolution = time_range.resolution_s
    return f"{{dm:{deployment_id}}}:{resolution}:{at // resolution * resolution}"


def _kept(time_range: TimeRange, now_s: float) -> Iterable[int]:
    """The starts of all intervals that may still be there."""
    starts = time_range.starts(now_s)
    more = SLACK_S + 2 * time_range.resolution_s
    return range(starts[0] - more // starts.step * starts.step, starts[-1] + more, starts.step)


def _span_words(field: str, span: PartitionCounts) -> list[Word]:
    counts: list[Word] = [word for name, count in span.counts.items() if count for word in (name, count)]
    return [field, span.end, len(counts), *counts]


def _time_words(times: Times) -> list[Word]:
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
