"""Names of metrics, and logging. Logs are JSON lines on standard error (plain text in a terminal)."""

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
    terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
