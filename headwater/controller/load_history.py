"""The recent load of one pipeline, from the heartbeats of its workers and the lag of its consumer group."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headwater.controller.scaling import LOWER_WINDOW_S, LoadSample
from headwater.model.worker_protocol import Heartbeat

SETTLE_S = 6.0
"""How long after a change of the workers no sample is taken: partitions are being assigned to other workers."""
KEPT_S = 2 * LOWER_WINDOW_S

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class _WorkerTotals:
    """The totals of a worker since its start. They are smaller after a restart."""

    processed: int
    cpu_s: float
    scripts_cpu_s: float

    @classmethod
    def of(cls, heartbeat: Heartbeat) -> "_WorkerTotals":
        processed = heartbeat.counters.get("messages_received", 0)
        return cls(processed, heartbeat.cpu_s, heartbeat.scripts_cpu_s)


@dataclass(slots=True)
class LoadHistory:
    """The samples of a pipeline's load since its workers last changed.

    Attributes:
        samples: The samples, oldest first.
    """

    samples: deque[LoadSample] = field(default_factory=deque)
    _workers: dict[str, _WorkerTotals] = field(default_factory=dict)
    _changed_at: float = float("-inf")

    def clear(self, now: float) -> None:
        """Forget all samples, because the workers change or wait for a store or broker."""
        self.samples.clear()
        self._workers.clear()
        self._changed_at = now

    def add(self, now: float, lag: int | None, heartbeats: Mapping[str, Heartbeat]) -> Sequence[LoadSample]:
        """Add a sample, and return all samples.

        Args:
            now: The present time, in monotonic seconds.
            lag: The lag of the consumer group; None for a source without offsets.
            heartbeats: The last heartbeats of all workers, by the name of the worker.
        """
        if heartbeats.keys() != self._workers.keys():
            self.clear(now)
        totals = {name: _WorkerTotals.of(heartbeat) for name, heartbeat in heartbeats.items()}
        before, self._workers = self._workers, totals
        if now - self._changed_at < SETTLE_S:
            return ()
        last = self.samples[-1] if self.samples else LoadSample(now, lag, 0, 0.0)
        processed = sum(_growth(before[name].processed, each.processed) for name, each in totals.items())
        busy_s = sum(_busy_s(before[name], each) for name, each in totals.items())
        self.samples.append(LoadSample(now, lag, last.processed + processed, last.busy_s + busy_s))
        while self.samples[0].at < now - KEPT_S:
            self.samples.popleft()
        return tuple(self.samples)


def _busy_s(before: _WorkerTotals, after: _WorkerTotals) -> float:
    cpu_s = _growth(before.cpu_s, after.cpu_s)
    return max(cpu_s, _growth(before.scripts_cpu_s, after.scripts_cpu_s))


def _growth(before: Number, after: Number) -> Number:
    """Return by how much a total has grown. A smaller total is of a new process, and began at 0."""
    return after - before if after >= before else after
