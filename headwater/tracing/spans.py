"""Spans of deploys, and the ids by which all processes agree on the trace of a deploy."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

_TRACEPARENT = re.compile("(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED = 0x01


class SpanContext(NamedTuple):
    """Identifies a span: the 16 bytes of its trace and its own 8 bytes, as numbers."""

    trace_id: int
    span_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that has ended. Times are in nanoseconds since 1970.

    Attributes:
        parent: The span of the same trace, or of a caller, that this span is a part of; None for the root span.
        links: Related spans of other traces.
        events: The times of named events during the span.
        error: Why the work of the span failed; None when it did not fail.
    """

    name: str
    context: SpanContext
    parent: SpanContext | None
    start_ns: int
    end_ns: int
    kind: Literal["internal", "server"] = "internal"
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    links: tuple[SpanContext, ...] = ()
    events: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


class SpanExporter(Protocol):
    """Exports spans. Thread-safe; no method waits for the network."""

    @property
    def is_enabled(self) -> bool:
        """Whether spans are exported, so that it is worthwhile to make them."""

    def export(self, span: Span) -> None:
        """Export a span that has ended."""


class NoSpanExporter:
    """Exports nothing."""

    is_enabled = False

    def export(self, span: Span) -> None:
        """Do nothing."""


def deploy_context(deployment_id: str, generation: int) -> SpanContext:
    """Return the context of the root span in the trace of a deploy.

    It is derived from the deployment and its generation, so that the API, the leading controller and a new leader use
    the same ids without storing them.
    """
    digest = hashlib.sha256(f"headwater deploy {deployment_id} {generation}".encode()).digest()
    return SpanContext(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))


def new_context(trace_id: int) -> SpanContext:
    """Return the context of a new span in a trace."""
    return SpanContext(trace_id, secrets.randbits(64) or 1)


def parse_traceparent(header: str) -> SpanContext | None:
    """Return the context of the caller's span from a header `traceparent`.

    Returns None for a header that is absent or invalid, and when the caller does not sample its trace.
    """
    match = _TRACEPARENT.fullmatch(header)
    if match is None or not int(match[3], 16) & _SAMPLED:
        return None
    context = SpanContext(int(match[1], 16), int(match[2], 16))
    return context if all(context) else None
