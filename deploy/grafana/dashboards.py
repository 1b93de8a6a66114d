"""Writes the Grafana dashboards, as `python -m deploy.grafana.dashboards`.

`make dashboards` does the same.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import GraphThresholdsStyleConfig, VizTooltipOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, GraphTresholdsStyleMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    VariableRefresh,
    VariableSort,
)

DIRECTORY = Path(__file__).parent
SOURCE = DataSourceRef("prometheus", "${source}")
OF_PIPELINE = 'config_id="$configuration"'
OF_INGEST = 'ingest=~"$ingest"'
GREEN, YELLOW, RED = "green", "yellow", "red"

Query = tuple[str, str]
"""A PromQL expression, and the legend of its series."""


def steps(warning: float | None = None, critical: float | None = None, *, below: bool = False) -> Any:
    """Return thresholds from which values are yellow and red.

    With `below`, only values of 1 or more are green.
    """
    if below:
        found = [Threshold(None, RED), Threshold(1, GREEN)]
    else:
        found = [Threshold(None, GREEN)]
        found += [Threshold(at, color) for at, color in ((warning, YELLOW), (critical, RED)) if at is not None]
    return dashboard.ThresholdsConfig().steps(found)


def number(title: str, expression: str, unit: str = "short", thresholds: Any = None) -> stat.Panel:
    """Return a panel with the newest value of an expression."""
    query = prometheus.Dataquery().expr(expression).instant().ref_id("A")
    panel = stat.Panel().title(title).datasource(SOURCE).unit(unit).height(4).with_target(query)
    return panel.graph_mode(BigValueGraphMode.NONE).thresholds(thresholds or steps())


def chart(title: str, *queries: Query, unit: str = "short", thresholds: Any = None) -> timeseries.Panel:
    """Return a panel with the values of expressions over time."""
    panel = timeseries.Panel().title(title).datasource(SOURCE).unit(unit).min(0).span(12).height(8)
    panel = panel.tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    for place, (expression, legend) in enumerate(queries):
        query = prometheus.Dataquery().expr(expression).range().legend_format(legend).ref_id("ABCDEFGH"[place])
        panel = panel.with_target(query)
    if thresholds is not None:
        lines = GraphThresholdsStyleConfig().mode(GraphTresholdsStyleMode.DASHED)
        panel = panel.thresholds(thresholds).thresholds_style(lines)
    return panel


def rate(series: str, matchers: str = "", by: str = "") -> str:
    """Return an expression for the rate of a counter, in total or by a label."""
    grouping = f"sum by ({by})" if by else "sum"
    return f"{grouping} (rate({series}{{{matchers}}}[$__rate_interval]))"


def quantiles(series: str, matchers: str = "") -> list[Query]:
    """Return queries for the median and the 99th percentile of a histogram."""
    buckets = rate(f"{series}_bucket", matchers, "le")
    return [(f"histogram_quantile({value}, {buckets})", legend) for value, legend in ((0.5, "p50"), (0.99, "p99"))]


def page(
    uid: str, title: str, panels: Sequence[stat.Panel | timeseries.Panel], variables: Sequence[Any] = ()
) -> dashboard.Dashboard:
    """Return a dashboard that links to the others. The panels with numbers share its first row."""
    numbers = [panel for panel in panels if isinstance(panel, stat.Panel)]
    for panel in numbers:
        panel.span(24 // len(numbers))
    links = dashboard.DashboardLink("Headwater").type(DashboardLinkType.DASHBOARDS).tags(["headwater"]).keep_time(True)
    found = dashboard.Dashboard(title).uid(uid).tags(["headwater"]).refresh("30s").time("now-3h", "now").link(links)
    found = found.with_variable(dashboard.DatasourceVariable("source").label("Data source").type("prometheus"))
    for variable in variables:
        found = found.with_variable(variable)
    for panel in panels:
        found = found.with_panel(panel)
    return found


def label_variable(name: str, label: str, series: str, of: str, *, multi: bool = False) -> Any:
    """Return a variable with the values of a label of a series."""
    variable = dashboard.QueryVariable(name).label(label).datasource(SOURCE).query(f"label_values({series}, {of})")
    variable = variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return variable.multi(True).include_all(True) if multi else variable


def installation() -> dashboard.Dashboard:
    """Return the overview of an installation."""
    phases = 'count(headwater_pipeline_phase{{phase="{}"}}) or vector(0)'
    not_ready = "count(headwater_pipeline_worker_ready == 0) or vector(0)"
    errors = 'sum(rate(headwater_http_requests_total{status=~"5.."}[5m])) or vector(0)'
    slow = quantiles("headwater_http_request_duration_seconds", 'route!~".*tail.*"')
    records = "headwater_pipeline_messages_{}_total"
    loops = "max by (loop) (headwater_controller_loop_failing)"
    panels = [
        number("Running pipelines", phases.format("running")),
        number("Failed pipelines", phases.format("failed"), thresholds=steps(critical=1)),
        number("Workers not ready", not_ready, thresholds=steps(critical=1)),
        number("Largest lag", "max(headwater_pipeline_lag)", thresholds=steps(10_000, 100_000)),
        number("A controller leads", "max(headwater_controller_leads)", thresholds=steps(below=True)),
        number("Errors of the API", errors, "reqps", steps(0.1, 1)),
        chart("Records", (rate(records.format("received")), "received"), (rate(records.format("sent")), "sent"),
              unit="rps"),
        chart("Lag of pipelines, largest ten", ("topk(10, headwater_pipeline_lag)", "{{config_id}}"),
              thresholds=steps(10_000, 100_000)),
        chart("Dead letters by pipeline",
              (rate("headwater_pipeline_processor_error_total", by="config_id"), "{{config_id}}"),
              (rate("headwater_pipeline_output_error_total", by="config_id"), "{{config_id}}, sink"), unit="rps"),
        chart("Restarts of workers, by pipeline",
              ("sum by (config_id) (increase(headwater_pipeline_worker_restarts_total[5m]))", "{{config_id}}")),
        chart("API: requests by status", (rate("headwater_http_requests_total", by="status"), "{{status}}"),
              unit="reqps"),
        chart("API: time of a request", *slow, unit="s", thresholds=steps(1, 2)),
        chart("API: refused requests", (rate("headwater_http_refused_total", by="problem"), "{{problem}}"),
              (rate("headwater_http_requests_total", 'status="429"'), "429"), unit="reqps"),
        chart("Dependencies (1: available)",
              ("min by (dependency) (headwater_dependency_available)", "{{dependency}}")),
        chart("Failing loops of the controller", (loops, "{{loop}}"), thresholds=steps(critical=1)),
        chart("Memory of the API's processes", ("process_resident_memory_bytes", "{{instance}} {{pid}}"), unit="bytes"),
    ]  # fmt: skip
    return page("headwater-installation", "Headwater: installation", panels)


def pipeline() -> dashboard.Dashboard:
    """Return the page of one pipeline."""
    of_pipeline = partial(rate, matchers=OF_PIPELINE)
    ready = f"sum(headwater_pipeline_worker_ready{{{OF_PIPELINE}}})"
    missing = f"count(headwater_pipeline_worker_ready{{{OF_PIPELINE}}}) - {ready}"
    restarts = f"sum(increase(headwater_pipeline_worker_restarts_total{{{OF_PIPELINE}}}[1h]))"
    lag = f"sum(headwater_pipeline_lag{{{OF_PIPELINE}}})"
    received = of_pipeline("headwater_pipeline_messages_received_total")
    sent = of_pipeline("headwater_pipeline_messages_sent_total")
    failed = of_pipeline("headwater_pipeline_processor_error_total")
    rejected = of_pipeline("headwater_pipeline_output_error_total")
    transform = "headwater_pipeline_transform_"
    time_sum = of_pipeline(f"{transform}processing_latency_seconds_sum", by="transform_uid")
    time_count = of_pipeline(f"{transform}processing_latency_seconds_count", by="transform_uid")
    panels = [
        number("Ready workers", ready, thresholds=steps(below=True)),
        number("Workers not ready", missing, thresholds=steps(critical=1)),
        number("Lag", lag, thresholds=steps(10_000, 100_000)),
        number("Received", received, "rps"),
        number("Share of failed records", f"{failed} / {received}", "percentunit", steps(0.001, 0.05)),
        number("Restarts in an hour", restarts, thresholds=steps(1, 4)),
        chart("Records", (received, "received"), (sent, "sent"), unit="rps"),
        chart("Lag", (lag, "lag"), thresholds=steps(10_000, 100_000)),
        chart("Dead letters", (failed, "of transforms"), (rejected, "of sinks"), unit="rps"),
        chart("From the source to the sinks", *quantiles("headwater_pipeline_total_latency_seconds", OF_PIPELINE),
              unit="s", thresholds=steps(10, 60)),
        chart("Processing time", *quantiles("headwater_pipeline_processing_latency_seconds", OF_PIPELINE), unit="s"),
        chart("Age of the data at delivery", *quantiles("headwater_pipeline_data_age_seconds", OF_PIPELINE), unit="s",
              thresholds=steps(30, 90)),
        chart("Lookups in Valkey", *quantiles("headwater_pipeline_lookup_latency_seconds", OF_PIPELINE), unit="s"),
        chart("Mean time of each transform", (f"{time_sum} / {time_count}", "{{transform_uid}}"), unit="s"),
        chart("Transforms: dropped records", (of_pipeline(f"{transform}dropped_total", by="transform_uid"),
              "{{transform_uid}}"), unit="rps"),
        chart("Transforms: failed records", (of_pipeline(f"{transform}errors_total", by="transform_uid"),
              "{{transform_uid}}"), unit="rps"),
        chart("Redrives: letters read", (of_pipeline("headwater_redrive_messages_received_total", by="worker"),
              "{{worker}}"), unit="rps"),
        chart("Killed for memory (1: in the last 15 minutes)",
              (f"max by (worker) (headwater_pipeline_worker_oom_killed{{{OF_PIPELINE}}})", "{{worker}}"),
              thresholds=steps(critical=1)),
    ]  # fmt: skip
    variable = label_variable("configuration", "Configuration", "headwater_pipeline_phase", "config_id")
    return page("headwater-pipeline", "Headwater: pipeline", panels, [variable])


def prices() -> dashboard.Dashboard:
    """Return the page of the prices worker."""
    ticks = rate("headwater_price_ticks_total")
    panels = [
        number("Waiting ticks", "max(headwater_price_lag)", thresholds=steps(10_000, 100_000)),
        number("Ticks", ticks, "cps"),
        chart("Ticks", (ticks, "stored"), (rate("headwater_price_ticks_outside_total"), "price excluded"),
              (rate("headwater_price_ticks_unpriced_total"), "without a price of the quote token"), unit="cps"),
        chart("Waiting ticks", ("max(headwater_price_lag)", "waiting"), thresholds=steps(10_000, 100_000)),
    ]  # fmt: skip
    return page("headwater-prices", "Headwater: prices", panels)


def ingests() -> dashboard.Dashboard:
    """Return the page of the ingests."""
    of_ingest = partial(rate, matchers=OF_INGEST)
    lag = f"headwater_ingest_lag_seconds{{{OF_INGEST}}}"
    gaps = f"sum(increase(headwater_ingest_gaps_total{{{OF_INGEST}}}[24h]))"
    panels = [
        number("Furthest behind", f"max({lag})", "s", steps(60, 300)),
        number("Gaps in a day", gaps, thresholds=steps(critical=1)),
        chart("Behind the chain", (lag, "{{ingest}}"), unit="s", thresholds=steps(60, 300)),
        chart("Records by stream", (of_ingest("headwater_ingest_records_total", by="ingest, stream"),
              "{{ingest}} {{stream}}"), unit="rps"),
        chart("Errors of nodes and Kafka", (of_ingest("headwater_ingest_errors_total", by="ingest"), "{{ingest}}"),
              unit="cps"),
        chart("Events without a record", (of_ingest("headwater_ingest_skipped_total", by="ingest, reason"),
              "{{ingest}} {{reason}}"), (of_ingest("headwater_ingest_left_out_total", by="ingest"),
              "{{ingest}} too large"), unit="cps"),
    ]  # fmt: skip
    variable = label_variable("ingest", "Ingest", "headwater_ingest_errors_total", "ingest", multi=True)
    return page("headwater-ingests", "Headwater: ingests", panels, [variable])


DASHBOARDS: Mapping[str, Callable[[], dashboard.Dashboard]] = {
    "installation.json": installation,
    "pipeline.json": pipeline,
    "prices.json": prices,
    "ingests.json": ingests,
}


def text(build: Callable[[], dashboard.Dashboard]) -> str:
    """Return a dashboard as JSON."""
    return json.dumps(build().build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for name, build in DASHBOARDS.items():
        (DIRECTORY / name).write_text(text(build), "utf-8")
