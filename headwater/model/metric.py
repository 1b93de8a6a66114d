"""What is measured of a pipeline: counts of records, and histograms of times that can be merged.

A histogram's bins are logarithmic (DDSketch: Masson, Rim, Lee, VLDB 2019): bin i holds the values in
(FLOOR_MS · γ^(i−1), FLOOR_MS · γ^i] with γ = (1 + ERROR) / (1 − ERROR), and is told as the middle of it, which differs
from each of them by at most ERROR. Bin 0 holds what is not above FLOOR_MS, and is told as 0.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

MetricType = Literal[
    "messages_received",  # records read from the source
    "messages_sent",  # records acknowledged by a sink, once per sink
    "total_latency",  # source timestamp → sink acknowledgement, ms
    "processing_latency",  # consumed → handed to the producer, ms
    "processor_error",  # records that a transform could not process
    "output_error",  # records that a sink could not take
    "data_age",  # delivery − the record's own event time, ms
]
CountType = Literal["messages_received", "messages_sent", "processor_error", "output_error"]
"""The types that are numbers of records."""
TimeType = Literal[
    "total_latency",
    "processing_latency",
    "data_age",
    "lookup_latency",  # a question to the set store → its answer, ms; not among the public types
]
"""The types that are times, measured as histograms."""

METRIC_TYPES: tuple[MetricType, ...] = get_args(MetricType)
COUNT_TYPES: tuple[CountType, ...] = get_args(CountType)
TIME_TYPES: tuple[TimeType, ...] = get_args(TimeType)

ERROR = 0.02
FLOOR_MS = 0.001
_GAMMA = (1 + ERROR) / (1 - ERROR)
_LOG_GAMMA = math.log(_GAMMA)

RangeName = Literal["1h", "1d", "1w"]


def value_of(bin_: int) -> float:
    """What a bin is told as, in ms."""
    return FLOOR_MS * 2 * _GAMMA**bin_ / (1 + _GAMMA) if bin_ > 0 else 0.0


def upper_bound(bin_: int) -> float:
    """The largest value of a bin, in ms."""
    return FLOOR_MS * _GAMMA**bin_


class Histogram(Counter[int]):
    """Number of values by bin."""

    def add(self, value_ms: float, weight: int = 1) -> None:
        """Add a value. A time below zero, which clocks that disagree can give, counts as 0."""
        self[max(0, math.ceil(math.log(max(value_ms, FLOOR_MS) / FLOOR_MS) / _LOG_GAMMA))] += weight

    def add_many(self, values_ms: npt.NDArray[np.floating[Any]], weights: npt.NDArray[np.int64]) -> None:
        """Add many values, each `weight` times."""
        logs = np.log(np.maximum(values_ms, FLOOR_MS) / FLOOR_MS) / _LOG_GAMMA
        sums = np.bincount(np.maximum(np.ceil(logs), 0).astype(np.int64), weights).astype(np.int64)
        bins = np.flatnonzero(sums)
        self.update(dict(zip(bins.tolist(), sums[bins].tolist(), strict=True)))

    def percentile(self, percent: float) -> float | None:
        """The smallest value that `percent` of the values don't exceed, in ms; None without values."""
        rank = math.ceil(self.total() * percent / 100)
        for bin_ in sorted(self):
            rank -= self[bin_]
            if rank <= 0:
                return value_of(bin_)
        return None

    def mean(self) -> float | None:
        """The mean in ms; None without values."""
        total = self.total()
        return sum(value_of(bin_) * count for bin_, count in self.items()) / total if total else None


Counts = Mapping[CountType, int]
Times = Mapping[TimeType, Histogram]


@dataclass(frozen=True, slots=True)
class Span:
    """Records of one partition, up to the position `end` (the next offset), counted."""

    end: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Measured:
    """What one write brings: counts by partition, and the times of the same records.

    minute: seconds since the epoch, a multiple of 60.
    """

    minute: int
    spans: Mapping[int, Span]
    times: Times


@dataclass(slots=True)
class Interval:
    """What was measured in one interval of time."""

    counts: Counter[CountType] = field(default_factory=Counter)
    times: dict[TimeType, Histogram] = field(default_factory=dict)

    def add(self, counts: Counts, times: Times) -> None:
        """Add what another measured."""
        self.counts.update(counts)
        for name, histogram in times.items():
            self.times.setdefault(name, Histogram()).update(histogram)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """How far back a question reaches, and in which steps."""

    name: RangeName
    resolution_s: int
    points: int

    @property
    def seconds(self) -> int:
        """The length of the range."""
        return self.resolution_s * self.points

    def starts(self, now_s: float) -> range:
        """The starts of its intervals in seconds since the epoch; the last one goes on now."""
        last = int(now_s) // self.resolution_s * self.resolution_s
        return range(last - self.seconds + self.resolution_s, last + 1, self.resolution_s)


TIME_RANGES: tuple[TimeRange, ...] = (
    TimeRange("1h", 60, 60),
    TimeRange("1d", 300, 288),
    TimeRange("1w", 3600, 168),
)
"""Each is kept at its own resolution."""
