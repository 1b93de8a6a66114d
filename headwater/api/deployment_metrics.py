"""Route of a deployment's metrics: throughput, latency, errors and age of the data."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from headwater.api.dependencies import ApiKeyDep, ServicesDep
from headwater.api.guarded_routes import authenticated_router, required_scopes
from headwater.api.openapi import problem_responses
from headwater.api.query_parameters import STRICT_BOOLEAN
from headwater.api.schemas import Timestamp
from headwater.errors import Fault, InvalidInput
from headwater.model.metric import (
    METRIC_TYPES,
    TIME_RANGES,
    TRANSFORM_METRIC_TYPES,
    Histogram,
    MetricType,
    RangeName,
    TransformMetricType,
)
from headwater.services.deployment_metrics import MetricsTotals, Point

router = authenticated_router("/api/v1/flow/{config_id}", "Deployments")

Name = TypeVar("Name", bound=str)

ALL = "all"
_RANGES = {time_range.name: time_range for time_range in TIME_RANGES}
_RATE_DESCRIPTION = "The number of errors divided by the number of received messages, at most 1."
_LISTS = "|".join(f"({names})(,({names}))*" for names in map("|".join, (METRIC_TYPES, TRANSFORM_METRIC_TYPES)))
_TYPES_PATTERN = f"^({ALL}|{_LISTS})$"


class MetricPoint(BaseModel):
    """One interval of a series."""

    timestamp: Timestamp = Field(description="The interval's start.")
    value: float = Field(description="The count of the interval, or the median of its times in ms.")


class MetricSeries(BaseModel):
    """One metric over time."""

    metric_type: MetricType
    points: list[MetricPoint] = Field(description="Ordered by time; empty when nothing was measured.")


class DeploymentSeries(BaseModel):
    """A deployment's metrics over time."""

    config_id: str
    metrics: list[MetricSeries]


class TransformMetricSeries(BaseModel):
    """One metric of one transform over time."""

    transform_uid: str
    metric_type: TransformMetricType
    points: list[MetricPoint] = Field(description="Ordered by time; empty when nothing was measured.")


class TransformSeries(BaseModel):
    """The metrics of each transform of a deployment over time."""

    config_id: str
    metrics: list[TransformMetricSeries] = Field(
        description="The transforms of the running pipeline in their order, and then the transforms that were removed "
        "but received records in the time range."
    )


class Percentiles(BaseModel):
    """Percentiles of times; null when nothing was measured."""

    p50: float | None
    p90: float | None
    p99: float | None
    unit: Literal["ms"] = "ms"

    @classmethod
    def of(cls, times: Histogram) -> "Percentiles":
        """Return the percentiles of a histogram."""
        return cls(p50=times.percentile(50), p90=times.percentile(90), p99=times.percentile(99), unit="ms")


class MetricsSummary(BaseModel):
    """Summary of a deployment's metrics over a time range.

    When the query parameter `metrics` names some types, the summary has only the members of these types.
    """

    pipeline_id: str = Field(description="The `id` of the configuration.")
    time_range: RangeName
    messages_received_per_min: float = Field(
        default=0, description="Per minute in which the configuration was deployed during the range."
    )
    messages_sent_per_min: float = Field(
        default=0, description="Like `messages_received_per_min`; a record counts once for each sink."
    )
    total_latency: Percentiles | None = Field(
        default=None, description="Time from the source record's timestamp to the sink's acknowledgement."
    )
    processing_latency: Percentiles | None = Field(
        default=None, description="Time from the read of a record until it is handed to the producer."
    )
    processor_error_rate: float = Field(default=0, description=_RATE_DESCRIPTION)
    output_error_rate: float = Field(default=0, description=_RATE_DESCRIPTION)
    avg_data_age_ms: float | None = Field(
        default=None, description="Time of delivery minus the record's own time; null when nothing was measured."
    )


@router.get(
    "/deploy/metrics",
    operation_id="getDeploymentMetrics",
    summary="Throughput, latency, errors and age of the data",
    responses=problem_responses(404, 422),
    openapi_extra=required_scopes("flow:read"),
    response_model=DeploymentSeries | TransformSeries | MetricsSummary,
    response_model_exclude_unset=True,
)
def metrics(
    config_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    time_range: Annotated[
        RangeName, Query(description="The time range that ends now; the current interval is included.")
    ] = "1h",
    aggregated: Annotated[
        bool, Query(description="True: one summary; false: points over time."), STRICT_BOOLEAN
    ] = False,
    metrics: Annotated[
        str,
        Query(
            description="Metric types, separated by commas; `all` for all of them. With `by=transform` the types are "
            f"{', '.join(f'`{name}`' for name in TRANSFORM_METRIC_TYPES)}.",
            json_schema_extra={"pattern": _TYPES_PATTERN},
        ),
    ] = ALL,
    by: Annotated[
        Literal["transform"] | None,
        Query(description="`transform`: series of each transform in place of the pipeline's; only without a summary."),
    ] = None,
) -> DeploymentSeries | TransformSeries | MetricsSummary:
    """Returns series over time, or their summary.
    A series has one point per minute for `1h`, per 5 minutes for `1d`, and per hour for `1w`. Counts are exact,
    also after a restart of a worker; times are accurate to 2 % (see docs/metrics.md).
    """
    if by == "transform":
        return _series_by_transform(config_id, api_key, services, time_range, metrics, aggregated=aggregated)
    types = _parse_types(metrics, METRIC_TYPES)
    deployment = services.deployments.get(api_key.owner, config_id)
    if aggregated:
        totals = services.deployment_metrics.totals(deployment, _RANGES[time_range])
        return MetricsSummary(pipeline_id=config_id, time_range=time_range, **_selected_members(totals, types))
    series = services.deployment_metrics.series(deployment, _RANGES[time_range], types)
    return DeploymentSeries(
        config_id=config_id,
        metrics=[MetricSeries(metric_type=name, points=_to_points(points)) for name, points in series.items()],
    )


def _series_by_transform(
    config_id: str,
    api_key: ApiKeyDep,
    services: ServicesDep,
    time_range: RangeName,
    metrics: str,
    *,
    aggregated: bool,
) -> TransformSeries:
    """Return the series of each transform.

    Raises InvalidInput, also when a summary is requested.
    """
    if aggregated:
        detail = "must be false with by=transform: there is no summary of single transforms"
        raise InvalidInput("The request was refused.", [Fault("/aggregated", detail)])
    types = _parse_types(metrics, TRANSFORM_METRIC_TYPES)
    deployment = services.deployments.get(api_key.owner, config_id)
    series = services.deployment_metrics.series_by_transform(deployment, _RANGES[time_range], types)
    return TransformSeries(
        config_id=config_id,
        metrics=[
            TransformMetricSeries(transform_uid=uid, metric_type=name, points=_to_points(points))
            for (uid, name), points in series.items()
        ],
    )


def _to_points(points: Sequence[Point]) -> list[MetricPoint]:
    return [MetricPoint(timestamp=start, value=value) for start, value in points]


def _parse_types(text: str, known: Sequence[Name]) -> Collection[Name]:
    """Return the metric types that a request names, in the order of the known types.

    Raises InvalidInput.
    """
    names = text.split(",")
    if names == [ALL]:
        return known
    if unknown := [name for name in names if name not in known]:
        detail = f"has unknown metric types {', '.join(map(repr, unknown))}; choose from {', '.join(known)}"
        raise InvalidInput("The request was refused.", [Fault("/metrics", detail)])
    return [metric_type for metric_type in known if metric_type in names]


def _selected_members(totals: MetricsTotals, types: Collection[MetricType]) -> dict[str, Any]:
    """Return the members of the summary that belong to the metric types."""
    members: dict[MetricType, tuple[str, Any]] = {
        "messages_received": ("messages_received_per_min", totals.per_minute("messages_received")),
        "messages_sent": ("messages_sent_per_min", totals.per_minute("messages_sent")),
        "total_latency": ("total_latency", Percentiles.of(totals.histogram("total_latency"))),
        "processing_latency": ("processing_latency", Percentiles.of(totals.histogram("processing_latency"))),
        "processor_error": ("processor_error_rate", totals.share_of_received("processor_error")),
        "output_error": ("output_error_rate", totals.share_of_received("output_error")),
        "data_age": ("avg_data_age_ms", totals.histogram("data_age").mean()),
    }
    return dict(member for metric_type, member in members.items() if metric_type in types)
