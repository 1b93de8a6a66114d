"""A span exporter in memory."""

from headwater.tracing.spans import Span


class MemorySpanExporter:
    """Keeps the exported spans."""

    is_enabled = True

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def export(self, span: Span) -> None:
        """Keep a span."""
        self.spans.append(span)

    def trace(self, trace_id: int) -> list[Span]:
        """Return the spans of a trace."""
        return [span for span in self.spans if span.context.trace_id == trace_id]
