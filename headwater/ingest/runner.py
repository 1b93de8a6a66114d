"""The main loop of an ingest.

It writes steps, counts metrics and retries after failures.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Event
from typing import Final

import structlog

from headwater.backoff import Backoff
from headwater.errors import NodeError, TransactionFailed, Unavailable
from headwater.ingest.base import ChainReader, Step
from headwater.ingest.writer import StepResult, StreamWriter

log = structlog.get_logger(__name__)

OpenedWriter = AbstractContextManager[tuple[StreamWriter, bytes | None]]
"""A context manager that yields a writer and the last stored position, which is None at the very first start."""

COUNTS: Final[Mapping[str, str]] = {
    "blocks": "Blocks whose records are in the final streams.",
    "undecoded": "Logs without an ABI that fits, or too large when decoded; they are not in `decoded_log`.",
    "malformed": "Logs with the topics of a token transfer but invalid data; they give no token transfer records.",
    "reorgs": "Reorganisations that retracted records of zerolag streams.",
    "retries": "Requests to the node that were sent again.",
    "failovers": "Changes from one node to another.",
    "subscription_failures": "Subscriptions to new heads that failed; the node is polled meanwhile.",
    "incomplete": "Responses of nodes that lacked logs of a block; the block was requested again.",
}
"""The names of a step's `counts`, with the help text of the metric."""

_SUMMARY_LABELS: Final[Mapping[str, str]] = {
    "blocks": "blocks",
    "undecoded": "logs that were not decoded",
    "malformed": "token transfers with invalid data",
}
"""The counts that a summary shows, with their labels."""


@dataclass(slots=True, kw_only=True)
class IngestMetrics:
    """The metrics of an ingest.

    Attributes:
        records: The number of stored records, by stream.
        left_out: The number of records that were too large for a topic.
        errors: The number of failures of the node or of Kafka.
        time_ms: The chain time of the newest stored event; 0 before the first event.
        skipped: The number of source events that were not converted, by reason.
        gaps: The number of places where source data is missing.
        counts: Further counts, by a name of COUNTS.
    """

    records: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    errors: int = 0
    time_ms: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    gaps: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, step: Step, result: StepResult) -> None:
        """Count a step that was stored."""
        self.records += result.records
        self.left_out += len(result.left_out)
        self.time_ms = max(self.time_ms, step.time_ms)
        self.skipped.update(step.skipped)
        self.gaps += step.gaps
        self.counts.update(step.counts)

    def summary(self) -> str:
        """Return a summary of what was stored, in one line."""
        parts = [f"{count} {stream}" for stream, count in sorted(self.records.items())]
        lines = [f"records: {', '.join(parts) or 'none'}"]
        if self.counts:  # some kinds of ingest count only records
            lines += [f"{self.counts[name]} {label}" for name, label in _SUMMARY_LABELS.items()]
        return "; ".join(lines)


def run(
    reader: ChainReader,
    open_writer: Callable[[], OpenedWriter],
    stop: Event,
    metrics: IngestMetrics,
    backoff: Backoff | None = None,
) -> None:
    """Write the steps of a chain reader until it ends or `stop` is set.

    Waits and retries while the node or Kafka is unavailable. Closes the reader at the end.
    """
    with contextlib.closing(reader):
        _run_until_stopped(reader, open_writer, stop, metrics, backoff or Backoff(0.2, 30.0))


def _run_until_stopped(
    reader: ChainReader, open_writer: Callable[[], OpenedWriter], stop: Event, metrics: IngestMetrics, backoff: Backoff
) -> None:
    while not stop.is_set():
        try:
            _run_once(reader, open_writer, stop, metrics, backoff)
            return
        except (Unavailable, TransactionFailed) as error:
            if stop.is_set():  # `stop` makes waits raise, which is no failure of the node
                return
            metrics.errors += 1
            wait_s = max(backoff.next_delay_s(), error.retry_after_s if isinstance(error, NodeError) else 0)
            log.warning("the ingest waits before it tries again", reason=error.detail, seconds=round(wait_s, 1))
            stop.wait(wait_s)


def _run_once(
    reader: ChainReader, open_writer: Callable[[], OpenedWriter], stop: Event, metrics: IngestMetrics, backoff: Backoff
) -> None:
    with open_writer() as (writer, position):
        for step in reader.steps(position):
            if step is not None:
                _store(writer, step, metrics)
                backoff.reset()
            if stop.is_set():
                return


def _store(writer: StreamWriter, step: Step, metrics: IngestMetrics) -> None:
    result = writer.write(step)
    metrics.count(step, result)
    for reason in result.left_out:
        log.warning("a record is left out", reason=reason)
