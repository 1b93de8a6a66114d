"""Counts and times, per batch. They become final with the commit that covers their records."""

from collections import Counter
from dataclasses import dataclass, field

from headwater.engine.chain import Flight
from headwater.model.record import Failure
from headwater.telemetry import MetricType


@dataclass(slots=True)
class Observer:
    """totals: counts of committed records, and `processing_latency` as the sum over batches, in ms.

    Records that are read again after a refused delivery are counted once.
    """

    totals: Counter[MetricType] = field(default_factory=Counter)
    batches: int = 0
    rewinds: int = 0
    _open: Counter[MetricType] = field(default_factory=Counter)
    _open_batches: int = 0

    def delivered(self, flight: Flight, sent: int, refused: list[Failure], now: float) -> None:
        """Note a batch that was handed to the producer."""
        self._open["messages_received"] += len(flight.source)
        self._open["messages_sent"] += sent
        self._open["output_error"] += len(refused)
        self._open["processor_error"] += len(flight.rejected) - len(refused)
        self._open["processing_latency"] += int(1000 * (now - flight.read_at))
        self._open_batches += 1

    def committed(self) -> None:
        """All that was delivered is acknowledged, and its positions are on their way."""
        self.totals += self._open
        self.batches += self._open_batches
        self._forget()

    def rewound(self) -> None:
        """What was delivered since the last commit is read again."""
        self.rewinds += 1
        self._forget()

    def _forget(self) -> None:
        self._open, self._open_batches = Counter(), 0
