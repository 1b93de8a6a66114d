"""The spans of requests that wait for a deploy."""

from contextvars import copy_context
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fastapi import Request

from headwater.api import deploy_spans
from headwater.errors import DeployFailed
from headwater.model.deployment import Deployment
from headwater.tracing.spans import NoSpanExporter, SpanExporter, deploy_context
from tests.support.memory.span_exporter import MemorySpanExporter
from tests.unit.controller.world import DEPLOYMENT, deployment

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
DEPLOY = deploy_context(DEPLOYMENT, 1)


def record(
    span_exporter: SpanExporter, started: Deployment, *, traceparent: str = "", error: DeployFailed | None = None
) -> None:
    """Record a deploy request as its route does."""
    scope = {
        "type": "http",
        "method": "POST",
        "route": SimpleNamespace(path="/deploy"),
        "headers": [(b"traceparent", traceparent.encode())],
    }
    deploy_spans.begin(Request(scope), span_exporter)
    with deploy_spans.recorded(started):
        if error is not None:
            raise error


def test_a_request_without_a_caller_is_in_the_trace_of_the_deploy() -> None:
    span_exporter = MemorySpanExporter()
    copy_context().run(record, span_exporter, deployment())
    (span,) = span_exporter.spans
    assert (span.name, span.parent, span.links, span.error) == ("POST /deploy", DEPLOY, (), None)
    assert span.context.trace_id == DEPLOY.trace_id
    assert span.attributes["headwater.deployment_id"] == DEPLOYMENT
    assert span.start_ns <= span.end_ns


def test_a_caller_gets_a_span_in_its_own_trace() -> None:
    span_exporter = MemorySpanExporter()
    copy_context().run(lambda: record(span_exporter, deployment(), traceparent=f"00-{TRACE}-{CALLER}-01"))
    in_deploy, in_caller = span_exporter.spans
    assert in_deploy.parent == DEPLOY
    assert in_caller.parent == (int(TRACE, 16), int(CALLER, 16))
    assert in_caller.context.trace_id == int(TRACE, 16)
    assert (in_deploy.links, in_caller.links) == ((in_caller.context,), (in_deploy.context,))


def test_a_failed_deploy_has_its_error() -> None:
    span_exporter = MemorySpanExporter()
    with pytest.raises(DeployFailed):
        copy_context().run(lambda: record(span_exporter, deployment(), error=DeployFailed("why")))
    assert span_exporter.spans[0].error == "why"


def test_a_deploy_that_changes_nothing_has_no_span() -> None:
    span_exporter = MemorySpanExporter()
    copy_context().run(record, span_exporter, replace(deployment(), observed_generation=1))
    assert span_exporter.spans == []


def test_without_a_receiver_there_are_no_spans() -> None:
    copy_context().run(record, NoSpanExporter(), deployment())
