"""Exports spans by OTLP over HTTP. This module needs the extra `tracing`.

A span object is created only when the work of the span has ended, with ids that Headwater computes. Therefore the
tracer of the SDK is not used, only its span, its batches and its exporter.
"""

import atexit
import os
import socket
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanKind, TraceFlags
from opentelemetry.trace import SpanContext as OtelSpanContext
from opentelemetry.trace.status import Status, StatusCode

from headwater.tracing.spans import Span, SpanContext

BATCH_EVERY_MS = 1_000
EXPORT_TIMEOUT_S = 5.0
"""How long an export is tried. The end of a process waits for its last export."""

_KINDS = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER}
_SCOPE = InstrumentationScope("headwater")


class OtlpSpanExporter:
    """Exports spans in batches, on a thread of its own.

    Spans are dropped while the receiver is unavailable. At the end of the process, the last spans are exported.

    Args:
        service: The service name of this process, unless OTEL_SERVICE_NAME is set.
        endpoint: The base URL of the receiver; empty when OpenTelemetry's own variables name it.
    """

    is_enabled = True

    def __init__(self, service: str, endpoint: str) -> None:
        attributes = {"service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            attributes["service.name"] = service
        self._resource = Resource.create(attributes)
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
        self._processor = BatchSpanProcessor(exporter, schedule_delay_millis=BATCH_EVERY_MS)
        atexit.register(self._processor.shutdown)

    def export(self, span: Span) -> None:
        """Export a span with the next batch."""
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=_context(span.context),
                parent=None if span.parent is None else _context(span.parent),
                resource=self._resource,
                attributes=dict(span.attributes),
                events=_events(span.events),
                links=[Link(_context(link)) for link in span.links],
                kind=_KINDS[span.kind],
                status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
                start_time=span.start_ns,
                end_time=span.end_ns,
                instrumentation_scope=_SCOPE,
            )
        )


def _context(context: SpanContext) -> OtelSpanContext:
    return OtelSpanContext(*context, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _events(events: Mapping[str, int]) -> list[Event]:
    return [Event(name, timestamp=at_ns) for name, at_ns in events.items()]
