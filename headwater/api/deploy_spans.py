"""Records the spans of requests that wait for a deploy."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from fastapi import Request

from headwater.errors import HeadwaterError
from headwater.model.deployment import Deployment
from headwater.tracing.spans import Span, SpanExporter, deploy_context, new_context, parse_traceparent


@dataclass(frozen=True, slots=True)
class _TracedRequest:
    """A request that may start a deploy."""

    span_exporter: SpanExporter
    name: str
    traceparent: str
    start_ns: int


_REQUEST: ContextVar[_TracedRequest | None] = ContextVar("traced request", default=None)


def begin(request: Request, span_exporter: SpanExporter) -> None:
    """Begin the spans of a request, which `recorded` ends and exports."""
    if span_exporter.is_enabled:
        name = f"{request.method} {request.scope['route'].path}"
        _REQUEST.set(_TracedRequest(span_exporter, name, request.headers.get("traceparent", ""), time.time_ns()))


@contextmanager
def recorded(deployment: Deployment) -> Iterator[None]:
    """Record the request of this task in the trace of the deploy that it waits for.

    A caller that sends `traceparent` gets a span in its own trace too. The two spans link to each other.
    """
    request = _REQUEST.get()
    if request is None or deployment.is_reconciled:
        yield
        return
    error: str | None = None
    try:
        yield
    except HeadwaterError as failure:
        error = failure.detail
        raise
    finally:
        _record(request, deployment, error)


def _record(request: _TracedRequest, deployment: Deployment, error: str | None) -> None:
    deploy, caller = deploy_context(deployment.id, deployment.generation), parse_traceparent(request.traceparent)
    attributes: dict[str, str | int] = {
        "headwater.config_id": deployment.config_id,
        "headwater.deployment_id": deployment.id,
        "headwater.revision": deployment.desired_revision,
    }
    in_deploy = new_context(deploy.trace_id)
    in_caller = None if caller is None else new_context(caller.trace_id)
    for context, parent, other in ((in_deploy, deploy, in_caller), (in_caller, caller, in_deploy)):
        if context is not None:
            span = Span(
                name=request.name,
                context=context,
                parent=parent,
                start_ns=request.start_ns,
                end_ns=time.time_ns(),
                kind="server",
                attributes=attributes,
                links=() if other is None else (other,),
                error=error,
            )
            request.span_exporter.export(span)
