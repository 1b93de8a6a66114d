"""Connects a process to the OTLP endpoint that the settings name."""

import os

import structlog

from headwater.errors import SetupError
from headwater.extras import require_extra
from headwater.settings import Settings
from headwater.tracing.spans import NoSpanExporter, SpanExporter

log = structlog.get_logger(__name__)

STANDARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own variables for the endpoint."""


def connect_span_exporter(settings: Settings, service: str) -> SpanExporter:
    """Return the span exporter of a process; without an OTLP endpoint it exports nothing.

    Raises SetupError when HEADWATER_OTLP_ENDPOINT is set and the extra is not installed. Where only a standard variable
    is set, which an operator may have set for other programs, a warning is logged.

    Args:
        service: The service name of the process, such as `headwater-api`.
    """
    variables = [name for name in STANDARD_VARIABLES if os.environ.get(name)]
    if not settings.otlp_endpoint and not variables:
        return NoSpanExporter()
    feature = "HEADWATER_OTLP_ENDPOINT" if settings.otlp_endpoint else variables[0]
    try:
        require_extra("tracing", "opentelemetry.exporter.otlp.proto.http", feature)
    except SetupError as error:
        if settings.otlp_endpoint:
            raise
        log.warning("deploys are not traced", reason=error.detail)
        return NoSpanExporter()
    from headwater.tracing.otlp import OtlpSpanExporter  # needs an extra of the package

    return OtlpSpanExporter(service, settings.otlp_endpoint)
