"""Each alert fires on series that have its fault.

No alert fires on the series of a healthy installation. promtool, which belongs to Prometheus, evaluates the rules.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.support.prometheus_server import RULES, promtool

PIPELINE = 'config_id="c", deployment_id="d"'
WORKER = f'{PIPELINE}, worker="d-0"'
INGEST = 'ingest="base", chain="base"'
ALWAYS_0, ALWAYS_1 = "0x90", "1x90"
GROWING, FLAT = "0+600x90", "600x90"
"""Values at each minute: a counter that grows by ten a second, and one that does not grow."""


def pipeline_(name: str, labels: str = WORKER) -> str:
    """Return a series of a pipeline."""
    return f"headwater_pipeline_{name}{{{labels}}}"


def histogram(name: str, labels: str, bounds: Mapping[str, str]) -> dict[str, str]:
    """Return the buckets of a histogram."""
    return {f'{name}_bucket{{{labels}, le="{bound}"}}': values for bound, values in bounds.items()}


QUICK = {"0.1": GROWING, "0.2": GROWING, "400": GROWING, "+Inf": GROWING}
SLOW = {"0.1": ALWAYS_0, "0.2": ALWAYS_0, "400": GROWING, "+Inf": GROWING}
GET = 'method="GET", route="/api/v1/flow"'
REQUESTS = "headwater_http_request_duration_seconds"
PRICE_TICKS, UNPRICED = "headwater_price_ticks_total", "headwater_price_ticks_unpriced_total"

HEALTHY: Mapping[str, str] = {
    'up{job="headwater-api"}': ALWAYS_1,
    'headwater_dependency_available{dependency="broker"}': ALWAYS_1,
    'headwater_dependency_available{dependency="controller"}': ALWAYS_1,
    "headwater_controller_leads": ALWAYS_1,
    'headwater_controller_loop_failing{loop="sweeping"}': ALWAYS_0,
    "headwater_unknown_deployments": ALWAYS_0,
    'headwater_http_requests_total{route="/", status="200"}': GROWING,
    'headwater_http_requests_total{route="/", status="503"}': "0+1x90",
    'headwater_http_requests_total{route="/", status="429"}': "0+1x90",
    **histogram(REQUESTS, GET, QUICK),
    'headwater_rate_limit_uncounted_total{outcome="passed"}': ALWAYS_0,
    'headwater_http_refused_total{problem="too-large"}': "0+1x90",
    pipeline_("phase", f'{PIPELINE}, phase="running"'): ALWAYS_1,
    pipeline_("worker_ready"): ALWAYS_1,
    pipeline_("worker_crash_looping"): ALWAYS_0,
    pipeline_("worker_oom_killed"): ALWAYS_0,
    pipeline_("worker_restarts_total"): "0x60 1x30",
    pipeline_("lag", PIPELINE): "5x90",
    pipeline_("messages_received_total"): GROWING,
    pipeline_("processor_error_total"): ALWAYS_0,
    pipeline_("output_error_total"): ALWAYS_0,
    **histogram("headwater_pipeline_total_latency_seconds", WORKER, QUICK),
    **histogram("headwater_pipeline_data_age_seconds", WORKER, QUICK),
    **histogram("headwater_pipeline_lookup_latency_seconds", WORKER, QUICK),
    f"headwater_redrive_messages_received_total{{{WORKER}}}": GROWING,
    f"headwater_ingest_lag_seconds{{{INGEST}}}": "12x90",
    f"headwater_ingest_errors_total{{{INGEST}}}": "0x30 1x60",
    f"headwater_ingest_gaps_total{{{INGEST}}}": ALWAYS_0,
    f"headwater_ingest_left_out_total{{{INGEST}}}": ALWAYS_0,
    "headwater_price_lag": "100x90",
    PRICE_TICKS: GROWING,
    UNPRICED: "0+1x90",
}

FAULTS: Mapping[str, Mapping[str, str]] = {
    "HeadwaterTargetDown": {'up{job="headwater-api"}': ALWAYS_0},
    "HeadwaterDependencyUnavailable": {'headwater_dependency_available{dependency="broker"}': ALWAYS_0},
    "HeadwaterNoLeader": {"headwater_controller_leads": ALWAYS_0},
    "HeadwaterLoopFailing": {'headwater_controller_loop_failing{loop="sweeping"}': ALWAYS_1},
    "HeadwaterUnknownDeployments": {"headwater_unknown_deployments": "3x90"},
    "HeadwaterApiErrors": {'headwater_http_requests_total{route="/", status="503"}': "0+60x90"},
    "HeadwaterApiSlow": histogram(REQUESTS, GET, SLOW),
    "HeadwaterRateLimited": {'headwater_http_requests_total{route="/", status="429"}': "0+120x90"},
    "HeadwaterRateLimitUncounted": {'headwater_rate_limit_uncounted_total{outcome="passed"}': "0+2x90"},
    "HeadwaterRequestsRefused": {'headwater_http_refused_total{problem="too-large"}': "0+900x90"},
    "HeadwaterPipelineFailed": {pipeline_("phase", f'{PIPELINE}, phase="failed"'): ALWAYS_1},
    "HeadwaterPipelinePending": {pipeline_("phase", f'{PIPELINE}, phase="pending"'): ALWAYS_1},
    "HeadwaterWorkerNotReady": {pipeline_("worker_ready"): ALWAYS_0},
    "HeadwaterWorkerCrashLoop": {pipeline_("worker_crash_looping"): ALWAYS_1},
    "HeadwaterWorkerOutOfMemory": {pipeline_("worker_oom_killed"): ALWAYS_1},
    "HeadwaterWorkerRestarts": {pipeline_("worker_restarts_total"): "0+1x90"},
    "HeadwaterLagGrows": {pipeline_("lag", PIPELINE): "20000+100x90"},
    "HeadwaterLagWithoutProgress": {
        pipeline_("lag", PIPELINE): "500x90",
        pipeline_("messages_received_total"): FLAT,
    },
    "HeadwaterOutputLate": histogram("headwater_pipeline_total_latency_seconds", WORKER, SLOW),
    "HeadwaterDataOld": histogram("headwater_pipeline_data_age_seconds", WORKER, SLOW),
    "HeadwaterErrorRate": {pipeline_("processor_error_total"): "0+60x90"},
    "HeadwaterDeadLetters": {pipeline_("processor_error_total"): "0x80 1x10"},
    "HeadwaterOutputErrors": {pipeline_("output_error_total"): "0x80 1x10"},
    "HeadwaterLookupsSlow": histogram("headwater_pipeline_lookup_latency_seconds", WORKER, SLOW),
    "HeadwaterRedriveStuck": {f"headwater_redrive_messages_received_total{{{WORKER}}}": FLAT},
    "HeadwaterIngestBehind": {f"headwater_ingest_lag_seconds{{{INGEST}}}": "0+60x90"},
    "HeadwaterIngestErrors": {f"headwater_ingest_errors_total{{{INGEST}}}": "0+1x90"},
    "HeadwaterIngestGaps": {f"headwater_ingest_gaps_total{{{INGEST}}}": "0x80 1x10"},
    "HeadwaterIngestLeftOut": {f"headwater_ingest_left_out_total{{{INGEST}}}": "0x80 1x10"},
    "HeadwaterPricesBehind": {"headwater_price_lag": "200000x90"},
    "HeadwaterPricesStale": {PRICE_TICKS: FLAT, UNPRICED: ALWAYS_0},
    "HeadwaterTicksUnpriced": {UNPRICED: "0+500x90"},
}
"""For each alert, the series that have its fault."""

ALSO_FIRING = {"HeadwaterErrorRate": {"HeadwaterDeadLetters"}}
"""Alerts that fire with another one, because the fault of that one includes their own."""


NO_SERIES = "_x90"
"""Values of a series that has no samples, because no process exposes it."""

WITHOUT_PROCESS: Mapping[str, Mapping[str, str]] = {
    "HeadwaterLagWithoutProgress": {
        pipeline_("lag", PIPELINE): "500x90",
        pipeline_("messages_received_total"): NO_SERIES,
        pipeline_("processor_error_total"): NO_SERIES,
    },
    "HeadwaterPricesStale": {PRICE_TICKS: NO_SERIES, UNPRICED: NO_SERIES},
}
"""For alerts about missing progress, the series while no process is there that could make any."""

SECOND_COPIES: Mapping[str, str] = {
    'up{job="headwater-api", instance="b"}': ALWAYS_1,
    'headwater_dependency_available{dependency="controller", instance="b"}': ALWAYS_1,
    'headwater_controller_leads{instance="b"}': ALWAYS_0,
    'headwater_controller_loop_failing{loop="sweeping", instance="b"}': ALWAYS_0,
    'headwater_unknown_deployments{instance="b"}': ALWAYS_0,
    'headwater_price_lag{instance="b"}': "60000x90",
    'headwater_price_lag{instance="c"}': "60000x90",
}
"""The series of a second API process and of controllers that do not lead."""


def alerts() -> list[str]:
    """Return the names of all alerts."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def failures(folder: Path, series: Mapping[str, str], firing: set[str]) -> str:
    """Return what promtool reports when only these alerts should fire at the end."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]
    expression = 'max by (alertname) (ALERTS{alertstate="firing"})'
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": "90m", "exp_samples": samples}],
    }
    file = folder / "test.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    result = promtool("test", "rules", str(file))
    return "" if result.returncode == 0 else result.stdout + result.stderr


def test_the_rules_are_valid() -> None:
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_alert_fires_in_a_healthy_installation(tmp_path: Path) -> None:
    assert not failures(tmp_path, HEALTHY, set())


@pytest.mark.parametrize("alert", alerts())
def test_each_alert_fires_on_its_fault(tmp_path: Path, alert: str) -> None:
    assert not failures(tmp_path, {**HEALTHY, **FAULTS[alert]}, {alert, *ALSO_FIRING.get(alert, ())})


@pytest.mark.parametrize("alert", WITHOUT_PROCESS)
def test_missing_progress_is_noticed_without_a_process(tmp_path: Path, alert: str) -> None:
    assert not failures(tmp_path, {**HEALTHY, **WITHOUT_PROCESS[alert]}, {alert})


def test_no_alert_fires_because_a_process_has_copies(tmp_path: Path) -> None:
    assert not failures(tmp_path, {**HEALTHY, **SECOND_COPIES}, set())
