"""Configures logging: JSON lines on standard error, or plain text on terminals."""

import logging
import sys
from collections.abc import Callable

import structlog

_NOT_FIELDS = frozenset({"event", "level", "timestamp", "exc_info", "_record", "_from_structlog"})
"""The entries of an event that are not added as `name=value` to the text that a `LogListener` gets."""

LogListener = Callable[[str, str], None]
"""A function that is called with the level and the text of each log line."""


def configure_logging(level: str, listener: LogListener | None = None) -> None:
    """Set up structured logging for this process.

    Args:
        level: The lowest level that is logged: debug, info, warning or error. Libraries log only warnings and errors.
        listener: A function that is called for each log line too.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *([_call_listener(listener)] if listener is not None else []),
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


def _call_listener(listener: LogListener) -> structlog.typing.Processor:
    def process(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        fields = (f"{name}={value}" for name, value in event.items() if name not in _NOT_FIELDS)
        listener(str(event["level"]), " ".join([str(event["event"]), *fields]))
        return event

    return process


def _renderers() -> list[structlog.typing.Processor]:
    """Return the processors that format an event: as plain text in a terminal, else as JSON.

    Tracebacks contain no values of variables, because some are secrets.
    """
    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
