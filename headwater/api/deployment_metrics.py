"""Metrics of a deployment: throughput, latency, errors, age of the data."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from headwater.api.guard import guarded_router, needs
from headwater.api.openapi import failures
from headwater.api.queries import TRUE_OR_FALSE
from headwater.api.schemas import Timestamp
from headwater.api.services import Caller, Given
from headwater.errors import InvalidInput, Problem
from headwater.model.metric import METRIC_TYPES, TIME_RANGES, Histogram, MetricType, RangeName
from headwater.services.metrics import Summary

router = guarded_router("/api/v1/flow/{config_id}", "Deployments")

ALL = "all"
_RANGES = {one.name: one for one in TIME_RANGES}
_ANY_TYPE = "|".join(METRIC_TYPES)
_RATE = "Errors / messages received, at most 1."
_TYPES = f"^({ALL}|({_ANY_TYPE})(,({_ANY_TYPE}))*)$"


class MetricPoint(BaseModel):
    """One interval of a series."""

    timestamp: Timestamp = Field(description="The interval's start.")
    value: float = Field(description="A count of the interval, or the median of its times in ms.")


class MetricSeries(BaseModel):
    """One metric over time."""

    metric_type: MetricType
    points: list[MetricPoint] = Field(description="In the order of time; none when nothing was measured.")


class DeploymentSeries(BaseModel):
    """A deployment's metrics over time."""

    config_id: str
    metrics: list[MetricSeries]


class Percentiles(BaseModel):
    """How times are spread; null when nothing was measured."""

    p50: float | None
    p90: float | None
    p99: float | None
    unit: Literal["ms"] = "ms"

    @classmethod
    def of(cls, times: Histogram) -> "Percentiles":
        """Those of a histogram."""
        return cls(p50=times.percentile(50), p90=times.percentile(90), p99=times.percentile(99), unit="ms")


class DeploymentSummary(BaseModel):
    """A deployment's metrics of a range, in sum. With `metrics`, only the members of those types."""

    pipeline_id: str
    time_range: RangeName
    messages_received_per_min: float = Field(default=0, description="Per minute of the range while it was deployed.")
    messages_sent_per_min: float = Field(default=0, description="Counts a record once per sink.")
    total_latency: Percentiles | None = Field(
        default=None, description="From the source record's timestamp to the sink's acknowledgement."
    )
    processing_latency: Percentiles | None = Field(default=None, description="From read to handed to the producer.")
    processor_error_rate: float = Field(default=0, description=_RATE)
    output_error_rate: float = Field(default=0, description=_RATE)
    avg_data_age_ms: float | None = Field(
        default=None, description="Delivery − the record's own time; null when nothing was measured."
    )


@router.get(
    "/deploy/metrics",
    operation_id="getDeploymentMetrics",
    summary="Throughput, latency, errors and age of the data",
    responses=failures(404, 422),
    openapi_extra=needs("flow:read"),
    response_model=DeploymentSeries | DeploymentSummary,
    response_model_exclude_unset=True,
)
def metrics(
    config_id: str,
    caller: Caller,
    given: Given,
    time_range: Annotated[RangeName, Query(description="How far back, the interval that goes on included.")] = "1h",
    aggregated: Annotated[
        bool, Query(description="True: one summary; false: points over time."), TRUE_OR_FALSE
    ] = False,
    metrics: Annotated[
        str,
        Query(
            description="Metric types, separated by commas; `all` for all of them.",
            json_schema_extra={"pattern": _TYPES},
        ),
    ] = ALL,
) -> DeploymentSeries | DeploymentSummary:
    """Points are one a minute for `1h`, one per 5 minutes for `1d`, one an hour for `1w`. Counts are exact per source
    position; times are within 2 % (see docs/metrics.md).
    """
    types = _types(metrics)
    deployment, wanted = given.deployments.get(caller.owner, config_id), _RANGES[time_range]
    if aggregated:
        summary = given.metrics.summary(deployment, wanted)
        return DeploymentSummary(pipeline_id=config_id, time_range=time_range, **_members(summary, types))
    series = given.metrics.series(deployment, wanted, types)
    return DeploymentSeries(
        config_id=config_id,
        metrics=[
            MetricSeries(metric_type=name, points=[MetricPoint(timestamp=at, value=value) for at, value in points])
            for name, points in series.items()
        ],
    )


def _types(text: str) -> Collection[MetricType]:
    """The types that a request names. Raises InvalidInput."""
    named = text.split(",")
    if named == [ALL]:
        return METRIC_TYPES
    if unknown := [name for name in named if name not in METRIC_TYPES]:
        fault = f"has no metric types {', '.join(map(repr, unknown))}; there are {', '.join(METRIC_TYPES)}"
        raise InvalidInput("The request was refused.", [Problem("/metrics", fault)])
    return [known for known in METRIC_TYPES if known in named]


def _members(summary: Summary, types: Collection[MetricType]) -> dict[str, Any]:
    """The members of the summary that the types stand for."""
    members: dict[MetricType, tuple[str, Any]] = {
        "messages_received": ("messages_received_per_min", summary.per_minute("messages_received")),
        "messages_sent": ("messages_sent_per_min", summary.per_minute("messages_sent")),
        "total_latency": ("total_latency", Percentiles.of(summary.times("total_latency"))),
        "processing_latency": ("processing_latency", Percentiles.of(summary.times("processing_latency"))),
        "processor_error": ("processor_error_rate", summary.rate("processor_error")),
        "output_error": ("output_error_rate", summary.rate("output_error")),
        "data_age": ("avg_data_age_ms", summary.times("data_age").mean()),
    }
    return dict(member for name, member in members.items() if name in types)
