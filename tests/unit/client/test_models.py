"""The models have every member that the API's description has."""

from typing import Any

import msgspec
import pytest

from headwater_client import problem
from headwater_client.models import (
    account,
    catalog,
    dead_letters,
    deployment,
    flow_config,
    metrics,
    records,
    revisions,
    token_prices,
    trials,
    value_sets,
)
from tests.support.example_api import OPENAPI

SCHEMAS: dict[str, type[msgspec.Struct]] = {
    "Applied": value_sets.Applied,
    "AppliedWorker": value_sets.AppliedWorker,
    "ComparedResultBody": trials.ComparedResult,
    "ComparisonBody": trials.Comparison,
    "DatasetBody": value_sets.DatasetInfo,
    "DatasetMembership": value_sets.DatasetMembership,
    "DeadLetterBody": dead_letters.DeadLetter,
    "DeadLetterSummaryBody": dead_letters.LetterSummary,
    "DeadLettersBody": dead_letters.DeadLetterPage,
    "DeploymentBody": deployment.Deployment,
    "DeploymentLogs": deployment.Logs,
    "DeploymentSeries": metrics.Metrics,
    "DeploymentStats": deployment.Stats,
    "DifferenceExampleBody": trials.DifferenceExample,
    "EntriesPage": value_sets.EntriesPage,
    "EntriesWritten": value_sets.EntriesWritten,
    "ErrorGroupBody": trials.ErrorGroup,
    "Fault": problem.Fault,
    "FilterCount": value_sets.FilterCount,
    "FilterMembership": value_sets.FilterMembership,
    "FilterPage": value_sets.FilterPage,
    "FilterSummary": value_sets.FilterSummary,
    "FlowConfig": flow_config.FlowConfig,
    "Gap": deployment.Gap,
    "KafkaSink": flow_config.Sink,
    "KeyBody": account.ApiKey,
    "LastRewind": deployment.LastRewind,
    "LetterSummaryBody": dead_letters.LetterGroup,
    "ListedToken": token_prices.PricedToken,
    "LogEntry": deployment.LogLine,
    "MetricPoint": metrics.Point,
    "MetricSeries": metrics.Series,
    "MetricsSummary": metrics.MetricsSummary,
    "MovedPosition": deployment.MovedPosition,
    "OutputItem": records.Record,
    "OverviewBody": account.OverviewPage,
    "OverviewItem": account.OverviewItem,
    "Percentiles": metrics.Percentiles,
    "PipelineConfig": flow_config.PipelineConfig,
    "PriceBand": token_prices.PriceBand,
    "PriceExplanation": token_prices.PriceExplanation,
    "PriceHistory": token_prices.PriceHistory,
    "PriceItem": token_prices.PriceItem,
    "PricePoint": token_prices.PricePoint,
    "PriceStats": token_prices.PriceStats,
    "PriceStatus": token_prices.PriceStatus,
    "PriceWindow": token_prices.PriceWindow,
    "PricesConnection": deployment.SinkConnection,
    "PricesSink": flow_config.Sink,
    "ProblemDetails": problem.Problem,
    "QuotaLimit": account.Quota,
    "Readiness": account.Readiness,
    "RecordError": trials.RecordError,
    "RecordItem": records.Record,
    "RedriveAccepted": dead_letters.StartedRedrive,
    "RedriveBody": dead_letters.Redrive,
    "RedriveCount": dead_letters.StartedRedrive,
    "RedrivenBody": dead_letters.Redriven,
    "RestoredDeployment": deployment.Deployment,
    "ResumedDeployment": deployment.Deployment,
    "RevisionComparison": revisions.Diff,
    "RevisionItem": revisions.Revision,
    "RewoundPipeline": deployment.Rewound,
    "SavedRedisSetFilterTransform": flow_config.Transform,
    "SavedV8Transform": flow_config.Transform,
    "SignedInBody": account.NewApiKey,
    "SinkConnection": deployment.SinkConnection,
    "Snippets": deployment.Snippets,
    "Source": flow_config.Source,
    "SourceStream": account.SourceStream,
    "Stream": catalog.Stream,
    "TokenList": token_prices.TokenList,
    "TransformMetricSeries": metrics.TransformSeries,
    "TransformSeries": metrics.TransformMetrics,
    "TransformTotalsBody": trials.TransformTotals,
    "TrialBody": trials.Trial,
    "TrialRecordBody": trials.TrialRecord,
    "TrialSampleBody": trials.TrialSample,
    "TrialStepBody": trials.TrialStep,
    "TrialSummaryBody": trials.TrialSummary,
    "UnacceptedPrice": token_prices.UnacceptedPrice,
    "ValuesAdded": value_sets.ValuesAdded,
    "ValuesRemoved": value_sets.ValuesRemoved,
    "WorkerBounds": flow_config.WorkerBounds,
    "WorkerEntry": deployment.Worker,
    "WorkerScaling": deployment.WorkerScaling,
    "WorkersHealth": deployment.WorkersHealth,
}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = OPENAPI["components"]["schemas"][name]
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_model_has_the_members_of_its_schema(name: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(SCHEMAS[name])}
    assert set(schema(name)["properties"]) - set(fields) == set()
    always = {member for member, text in schema(name)["properties"].items() if "const" in text}
    required = always | set(schema(name).get("required", []))
    assert {encoded for encoded, field in fields.items() if field.required} - required == set()


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_member_is_none_where_the_schema_allows_null(name: str) -> None:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(SCHEMAS[name])}
    nullable = {
        member
        for member, description in schema(name)["properties"].items()
        if {"type": "null"} in description.get("anyOf", [])
    }
    refused = set()
    for member in nullable:
        try:
            msgspec.convert(None, fields[member])
        except msgspec.ValidationError:
            refused.add(member)
    assert refused == set()


def test_every_schema_of_a_response_has_a_model() -> None:
    responses = set()
    for methods in OPENAPI["paths"].values():
        for operation in methods.values():
            for code, response in operation["responses"].items():
                if code.startswith("2"):
                    responses |= references(response)
    without_model = {"Message", "Condition", "ObservedWorkerStatus", "DeadLetterTopic", "Liveness"}
    lists = {"OutputRecords", "StreamRecords", "QuotaLimits", "RevisionList"}
    assert responses - set(SCHEMAS) - without_model - lists - {"RedisSetFilterTransform", "V8Transform"} == set()


def references(value: Any, seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of all schemas that a part of the description uses."""
    if isinstance(value, list):
        return set().union(*(references(each, seen) for each in value))
    if not isinstance(value, dict):
        return set()
    found = set().union(*(references(each, seen) for key, each in value.items() if key != "example"))
    if isinstance(reference := value.get("$ref"), str) and (name := reference.rpartition("/")[2]) not in seen:
        found |= {name} | references(schema(name), seen | {name})
    return found


def test_unknown_members_are_ignored() -> None:
    document = b'{"uid": "a", "type": "webhook", "name": "w", "url": "https://example.com"}'
    assert msgspec.json.decode(document, type=flow_config.Sink).type == "webhook"
