"""Names of metrics, and logging. Logs, libraries' too, are JSON lines on standard error (plain text in a terminal)."""

import logging
import sys
from typing import Literal, get_args

import structlog

MetricType = Literal[
    "messages_received",  # records read from the source
    "messages_sent",  # records acknowledged by a sink, once per sink
    "total_latency",  # source timestamp → sink acknowledgement, ms
    "processing_latency",  # consumed → handed to the producer, ms
    "processor_error",  # records that a transform could not process
    "output_error",  # records that a sink could not take
    "data_age",  # delivery − the record's own event time, ms
]
METRIC_TYPES: tuple[MetricType, ...] = get_args(MetricType)


def configure_logging(level: str) -> None:
    """Set up structured logging for this process. level: debug, info, warning or error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *_renderers()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    libraries = logging.StreamHandler(sys.stderr)
    drop_internals = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    libraries.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=[drop_internals, *_renderers()], foreign_pre_chain=shared)
    )
    logging.basicConfig(handlers=[libraries], level=logging.WARNING, force=True)


def _renderers() -> list[structlog.typing.Processor]:
    """The last steps of a line: plain text in a terminal, else JSON."""
    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
