"""Metrics of a pipeline: counts of records, and mergeable histograms of durations.

The bins of a histogram are logarithmic (DDSketch: Masson, Rim, Lee, VLDB 2019). Bin i has the values in
(FLOOR_MS · γ^(i−1), FLOOR_MS · γ^i] with γ = (1 + RELATIVE_ERROR) / (1 − RELATIVE_ERROR). One value represents all
values in a bin; it differs from each by at most RELATIVE_ERROR. Bin 0 has the values up to FLOOR_MS; the
value 0 ms represents them.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

# The public API fixes the names of the metric types: a message is a record, a processor a transform, an output a sink.
MetricType = Literal[
    "messages_received",  # records read from the source
    "messages_sent",  # records acknowledged by a sink, once per sink
    "total_latency",  # source timestamp → sink acknowledgement, ms
    "processing_latency",  # read → handed to the producer, ms
    "processor_error",  # records that a transform could not process
    "output_error",  # records that a sink could not take
    "data_age",  # event time of the record → sink acknowledgement, ms
]
CountType = Literal["messages_received", "messages_sent", "processor_error", "output_error"]
"""The metric types that count records."""
DurationType = Literal[
    "total_latency",
    "processing_latency",
    "data_age",
    "lookup_latency",  # duration of a set lookup, ms; the API does not offer it
]
"""The metric types that are durations, measured as histograms."""

TransformCountType = Literal[
    "received",  # records that the transform received
    "sent",  # records that the transform passed on; a script may make several of one record
    "dropped",  # received records without an output and without an error
    "errors",  # received records that the transform could not process
]
"""The metric types of single transforms that count records."""
TransformMetricType = Literal[
    TransformCountType,
    "processing_latency",  # the transform begins with a batch → its results are available, ms
]
"""The metric types of single transforms."""

METRIC_TYPES: tuple[MetricType, ...] = get_args(MetricType)
TRANSFORM_COUNT_TYPES: tuple[TransformCountType, ...] = get_args(TransformCountType)
TRANSFORM_METRIC_TYPES: tuple[TransformMetricType, ...] = (*TRANSFORM_COUNT_TYPES, "processing_latency")
COUNT_TYPES: tuple[CountType, ...] = get_args(CountType)
DURATION_TYPES: tuple[DurationType, ...] = get_args(DurationType)

RELATIVE_ERROR = 0.02
"""How much the value that represents a bin may differ from a value in the bin, relative to it."""
FLOOR_MS = 0.001
"""The upper bound of bin 0, in ms."""
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)

MAX_LETTER_TOTALS = 1_000
"""How many kinds of dead letters of a deployment are counted separately."""
RangeName = Literal["1h", "1d", "1w"]
_TRANSFORM = "transform"


def transform_metric_name(uid: str, metric_type: TransformMetricType) -> str:
    """Return the name of a metric of one transform. It contains a slash, and no colon."""
    return f"{_TRANSFORM}/{uid}/{metric_type}"


def parse_transform_metric_name(name: str) -> tuple[str, TransformMetricType] | None:
    """Return the uid and the metric type of a metric of one transform; None for any other name."""
    kind, _, uid_and_type = name.partition("/")
    uid, _, text = uid_and_type.rpartition("/")
    metric_type = next((known for known in TRANSFORM_METRIC_TYPES if known == text), None)
    return (uid, metric_type) if kind == _TRANSFORM and metric_type is not None else None


def bin_value(bin_: int) -> float:
    """Return the value that represents a bin, in ms."""
    return FLOOR_MS * 2 * _GAMMA**bin_ / (1 + _GAMMA) if bin_ > 0 else 0.0


def upper_bound(bin_: int) -> float:
    """Return the largest value of a bin, in ms."""
    return FLOOR_MS * _GAMMA**bin_


class Histogram(Counter[int]):
    """The number of values in each bin."""

    def add(self, value_ms: float, weight: int = 1) -> None:
        """Add a value `weight` times.

        A negative value counts as 0. Differences are negative when the clocks of two machines differ.
        """
        self[max(0, math.ceil(math.log(max(value_ms, FLOOR_MS) / FLOOR_MS) / _LOG_GAMMA))] += weight

    def add_many(self, values_ms: npt.NDArray[np.floating[Any]], weights: npt.NDArray[np.int64]) -> None:
        """Add many values, each as often as its weight."""
        logs = np.log(np.maximum(values_ms, FLOOR_MS) / FLOOR_MS) / _LOG_GAMMA
        sums = np.bincount(np.maximum(np.ceil(logs), 0).astype(np.int64), weights).astype(np.int64)
        bins = np.flatnonzero(sums)
        self.update(dict(zip(bins.tolist(), sums[bins].tolist(), strict=True)))

    def percentile(self, percent: float) -> float | None:
        """Return the smallest value in ms that `percent` % of the values don't exceed.

        Returns None without values.
        """
        rank = math.ceil(self.total() * percent / 100)
        for bin_ in sorted(self):
            rank -= self[bin_]
            if rank <= 0:
                return bin_value(bin_)
        return None

    def mean(self) -> float | None:
        """Return the mean in ms; None without values."""
        total = self.total()
        return sum(bin_value(bin_) * count for bin_, count in self.items()) / total if total else None


Counts = Mapping[CountType, int]
DurationHistograms = Mapping[DurationType, Histogram]
TransformCounts = Mapping[str, int]
"""Counts of single transforms by `transform_metric_name`. The name contains a slash, which no metric type does."""
TransformDurationHistograms = Mapping[str, Histogram]
"""Histograms of the durations of single transforms by `transform_metric_name`."""


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """New counts of records of one partition.

    Attributes:
        end: The offset after the last counted record of the partition.
        counts: How many records were counted since the last write.
        transform_counts: The counts of single transforms since the last write.
        letter_totals: How many dead letters of each kind were written since the last write, by `letter_total_name`
            (model/dead_letter.py). The store adds them up since the deployment began.
    """

    end: int
    counts: Counts
    transform_counts: TransformCounts = field(default_factory=dict)
    letter_totals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Total:
    """A count since the deployment began.

    Attributes:
        count: The count.
        first: When it was first incremented, in seconds since the epoch.
        last: When it was last incremented, in seconds since the epoch.
    """

    count: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class MetricsDelta:
    """One write to the metric store: the counts and the durations since the last write.

    Attributes:
        minute: The start of the minute in which the records were counted, in seconds since the epoch.
        partitions: The counts by partition.
        times: The histograms of durations.
        transform_times: The histograms of the durations of single transforms.
    """

    minute: int
    partitions: Mapping[int, PartitionCounts]
    times: DurationHistograms
    transform_times: TransformDurationHistograms = field(default_factory=dict)


@dataclass(slots=True)
class Interval:
    """The metrics of one time interval.

    Attributes:
        counts: The counts by metric type.
        times: The histograms of durations by metric type.
        transform_counts: The counts of single transforms, see TransformCounts.
        transform_times: The histograms of the durations of single transforms, see TransformDurationHistograms.
    """

    counts: Counter[CountType] = field(default_factory=Counter)
    times: dict[DurationType, Histogram] = field(default_factory=dict)
    transform_counts: Counter[str] = field(default_factory=Counter)
    transform_times: dict[str, Histogram] = field(default_factory=dict)

    def add(self, counts: Counts, times: DurationHistograms) -> None:
        """Add counts and durations."""
        self.counts.update(counts)
        for name, histogram in times.items():
            self.times.setdefault(name, Histogram()).update(histogram)

    def add_transforms(self, counts: TransformCounts, times: TransformDurationHistograms) -> None:
        """Add counts and durations of single transforms."""
        self.transform_counts.update(counts)
        for name, histogram in times.items():
            self.transform_times.setdefault(name, Histogram()).update(histogram)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time range of a metrics request, divided into intervals.

    Attributes:
        name: The name in the request.
        resolution_s: The length of an interval, in seconds.
        points: The number of intervals.
    """

    name: RangeName
    resolution_s: int
    points: int

    @property
    def seconds(self) -> int:
        """The length of the range, in seconds."""
        return self.resolution_s * self.points

    def starts(self, now_s: float) -> range:
        """Return the starts of the intervals in seconds since the epoch.

        The last interval contains `now_s`.
        """
        last = int(now_s) // self.resolution_s * self.resolution_s
        return range(last - self.seconds + self.resolution_s, last + 1, self.resolution_s)


TIME_RANGES: tuple[TimeRange, ...] = (
    TimeRange("1h", 60, 60),
    TimeRange("1d", 300, 288),
    TimeRange("1w", 3600, 168),
)
"""The metric store keeps the metrics of each time range at the resolution of that range."""
