"""Logging. Logs, libraries' too, are JSON lines on standard error (plain text in a terminal)."""

import logging
import sys
from collections.abc import Callable

import structlog

_OWN_MEMBERS = frozenset({"event", "level", "timestamp", "exc_info", "_record", "_from_structlog"})

Tap = Callable[[str, str], None]
"""Takes the level and the text of each line."""


def configure_logging(level: str, tap: Tap | None = None) -> None:
    """Set up structured logging for this process. level: debug, info, warning or error. tap: gets each line too."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *([_tapping(tap)] if tap is not None else []),
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


def _tapping(tap: Tap) -> structlog.typing.Processor:
    def process(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        beside = (f"{name}={value}" for name, value in event.items() if name not in _OWN_MEMBERS)
        tap(str(event["level"]), " ".join([str(event["event"]), *beside]))
        return event

    return process


def _renderers() -> list[structlog.typing.Processor]:
    """The last steps of a line: plain text in a terminal, else JSON. Tracebacks tell no values: some are secrets."""
    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
