"""Metrics of deployments."""

from datetime import datetime

from headwater_client.model import Model


class Point(Model, frozen=True, kw_only=True):
    """One interval of a series: its start, and a count or the median of its times in ms."""

    timestamp: datetime
    value: float


class Series(Model, frozen=True, kw_only=True):
    """One metric over time."""

    metric_type: str
    points: list[Point]


class Metrics(Model, frozen=True, kw_only=True):
    """The metrics of a deployment over time."""

    config_id: str
    metrics: list[Series]

    def points(self, metric_type: str) -> list[Point]:
        """Return the points of one metric."""
        return [point for series in self.metrics if series.metric_type == metric_type for point in series.points]


class TransformSeries(Model, frozen=True, kw_only=True):
    """One metric of one transform over time."""

    transform_uid: str
    metric_type: str
    points: list[Point]


class TransformMetrics(Model, frozen=True, kw_only=True):
    """The metrics of each transform of a deployment over time."""

    config_id: str
    metrics: list[TransformSeries]


class Percentiles(Model, frozen=True, kw_only=True):
    """Percentiles of times; None when nothing was measured."""

    p50: float | None
    p90: float | None
    p99: float | None
    unit: str = "ms"


class MetricsSummary(Model, frozen=True, kw_only=True):
    """The metrics of a deployment over a time range, each as one value.

    A member has its default when the request does not ask for its metric (`types`). Error rates are errors divided by
    received messages, 0 to 1.
    """

    pipeline_id: str
    time_range: str
    messages_received_per_min: float = 0
    messages_sent_per_min: float = 0
    total_latency: Percentiles | None = None
    processing_latency: Percentiles | None = None
    processor_error_rate: float = 0
    output_error_rate: float = 0
    avg_data_age_ms: float | None = None
