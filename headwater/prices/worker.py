"""The prices worker: the engine's loop, with a delivery that writes price states.

A transform collects the ticks, and each commit writes them. Positions are stored together with the price states. They
are also committed to Kafka, but only for its consumer lag.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial

from headwater.engine.delivery import UNLIMITED, Backpressure
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.model.record import Failure, RecordBatch, TransformResult
from headwater.prices.price_writer import PriceWriter
from headwater.sources.base import Positions, Source
from headwater.transforms.base import DeferredBatch, PendingBatch

COMMIT_INTERVAL_S = 0.5
"""Seconds between writes. A price is about this old when a reader asks for it, or older when writes are slow."""
PAUSE_PER_WRITE = 2
"""The pause after a write, as a multiple of the write's duration: ticks of a token are cheaper when written together.
The pause ends early when FLUSH_AT_TICKS are in memory.
"""
IDLE_POLL_S = 0.1
"""The timeout of a poll of the source. A write that is due waits at most this long for the poll."""
FLUSH_AT_TICKS = 250_000
"""A write is due when this number of ticks is in memory."""


class TickCollector:
    """Implements Transform: hands the ticks to the price writer. Its output is empty."""

    uid = "prices"

    def __init__(self, writer: PriceWriter) -> None:
        self._writer = writer

    def start(self, batch: RecordBatch) -> PendingBatch:
        """See Transform."""
        return DeferredBatch(partial(self._collect, batch))

    def _collect(self, batch: RecordBatch) -> TransformResult:
        self._writer.add(batch)
        return TransformResult(RecordBatch.empty(batch.topic))

    def close(self) -> None:
        """See Transform."""


class PriceDelivery:
    """Implements Delivery: writes positions together with the states that include their ticks."""

    def __init__(self, writer: PriceWriter, clock: Callable[[], float] = time.monotonic) -> None:
        self.commit_interval_s = COMMIT_INTERVAL_S
        self._writer = writer
        self._clock = clock
        self._has_failed = False

    def connect(self, timeout_s: float) -> None:
        """Do nothing: source and price store connect when they are first used."""

    def start(self, timeout_s: float) -> None:
        """Do nothing: at each assignment the source calls `PriceWriter.acquire_partitions`."""

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        """Exclude the dropped partitions, and produce nothing.

        The TickCollector has handed the ticks to the price writer already.
        """
        in_flight.exclude_dropped()
        return 0, []

    def backpressure(self) -> Backpressure:
        """Bound the ticks in memory, unless a write has failed.

        A capacity of 0 makes a commit due immediately. After a failed write, the capacity is unlimited until the next
        regular commit repeats the write; until then `PriceWriter.add` bounds the ticks in memory.
        """
        return Backpressure(UNLIMITED if self._has_failed else max(0, FLUSH_AT_TICKS - self._writer.ticks_in_memory))

    def outstanding(self) -> int:
        """Return 0: no record waits for acknowledgements."""
        return 0

    def take_reread_reasons(self) -> list[str]:
        """Return nothing: no record is sent to Kafka, so none can be lost."""
        return []

    def flush(self, timeout_s: float) -> int:  # noqa: ARG002 - no records wait for acknowledgements
        return 0

    def commit(self, positions: Positions) -> None:
        """Write the states and positions to the price store.

        The worker commits the positions to Kafka, too.
        """
        began, self._has_failed = self._clock(), True
        self._writer.write(positions)
        self._has_failed = False
        self.commit_interval_s = max(COMMIT_INTERVAL_S, PAUSE_PER_WRITE * (self._clock() - began))

    def recover(self) -> bool:
        """Return False: no record is sent to Kafka, so none can be lost."""
        return False

    def remove_partitions(self, partitions: Iterable[int]) -> None:
        self._writer.forget(partitions)

    def close(self) -> None:
        """Do nothing: the caller closes the store."""


def prices_worker(source: Source, writer: PriceWriter, metrics: PipelineMetrics) -> Worker:
    """Return a worker that writes the ticks of a source to the price store."""
    return Worker(source, [TickCollector(writer)], PriceDelivery(writer), metrics, idle_poll_s=IDLE_POLL_S)
