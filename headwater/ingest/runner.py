"""The loop of an ingest: steps of a feed into the streams, with its health."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Event
from typing import Final

import structlog

from headwater.children import Backoff
from headwater.errors import DeliveryFailed, NodeUnavailable, Unavailable
from headwater.ingest.base import Feed, Step
from headwater.ingest.writer import StreamWriter, Written

log = structlog.get_logger(__name__)

Opened = AbstractContextManager[tuple[StreamWriter, bytes | None]]
"""A writer, and the position that was stored last."""

COUNTS: Final[Mapping[str, str]] = {
    "blocks": "Blocks whose records are in the normal streams.",
    "undecoded": "Logs without an ABI that fits; they are in `log` alone.",
    "malformed": "Logs of token transfers whose data is none; they are in `log` alone.",
    "reorgs": "Reorganisations that retracted records of zerolag streams.",
    "retries": "Requests to the node that were sent again.",
    "failovers": "Changes from one node to another.",
    "subscription_failures": "Subscriptions to new heads that failed; the node is polled meanwhile.",
    "incomplete": "Answers of nodes that lacked logs of a block; the block was asked for again.",
}
"""What steps may count beside records, with the text of its metric."""

_TOLD: Final[Mapping[str, str]] = {
    "blocks": "blocks",
    "undecoded": "logs without an ABI that fits",
    "malformed": "token transfers without their data",
}
"""Those of COUNTS that a summary tells, and how."""


@dataclass(slots=True)
class Meters:
    """What an ingest tells of itself.

    records: by stream. left_out: too large for a topic. errors: of the node or of Kafka. time_ms: of the newest event
    that is stored, 0 at first. skipped: by reason, what of the source became no record. gaps: what was missed of it.
    counts: by a name of COUNTS.
    """

    records: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    errors: int = 0
    time_ms: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    gaps: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, step: Step, written: Written) -> None:
        """A step is stored."""
        self.records += written.records
        self.left_out += len(written.left_out)
        self.time_ms = max(self.time_ms, step.time_ms)
        self.skipped.update(step.skipped)
        self.gaps += step.gaps
        self.counts.update(step.counts)

    def summary(self) -> str:
        """What was stored, in one line."""
        parts = [f"{count} {stream}" for stream, count in sorted(self.records.items())]
        told = [f"records: {', '.join(parts) or 'none'}"]
        if self.counts:  # some kinds of ingest count nothing but records
            told += [f"{self.counts[name]} {what}" for name, what in _TOLD.items()]
        return "; ".join(told)


def run(
    feed: Feed,
    open_writer: Callable[[], Opened],
    stop: Event,
    meters: Meters,
    backoff: Backoff | None = None,
) -> None:
    """Run until the feed ends or `stop` is set. Waits out what is away: the node, and Kafka."""
    backoff = backoff or Backoff(0.2, 30.0)
    while not stop.is_set():
        try:
            _run_once(feed, open_writer, stop, meters, backoff)
            return
        except (Unavailable, DeliveryFailed) as error:
            if stop.is_set():  # which ends waits with an error
                return
            meters.errors += 1
            wait_s = max(backoff.next_s(), error.retry_after_s if isinstance(error, NodeUnavailable) else 0)
            log.warning("the ingest waits", reason=error.detail, seconds=round(wait_s, 1))
            stop.wait(wait_s)


def _run_once(feed: Feed, open_writer: Callable[[], Opened], stop: Event, meters: Meters, backoff: Backoff) -> None:
    with open_writer() as (writer, position):
        for step in feed.steps(position):
            if step is not None:
                _store(writer, step, meters)
                backoff.reset()
            if stop.is_set():
                return


def _store(writer: StreamWriter, step: Step, meters: Meters) -> None:
    written = writer.write(step)
    meters.count(step, written)
    for reason in written.left_out:
        log.warning("a record is left out", reason=reason)
