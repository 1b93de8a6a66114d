"""Records the recent load of a pipeline, from its lag and the heartbeats of its workers."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.controller.scaling import LOWER_WINDOW_S, LoadSample
from headwater.model.worker_protocol import Heartbeat

SETTLE_S = 6.0
"""How long after a change of the workers no sample is taken: partitions are being assigned to other workers."""
KEPT_S = 2 * LOWER_WINDOW_S


@dataclass(frozen=True, slots=True)
class _WorkerLoad:
    """The load of a worker, from its last two heartbeats.

    Attributes:
        last: The last heartbeat.
        processed_per_s: The records per second that the worker processed.
        busy_share: The share of a CPU core that the busier of its two processes used.
    """

    last: Heartbeat
    processed_per_s: float = 0.0
    busy_share: float = 0.0

    def next(self, heartbeat: Heartbeat) -> "_WorkerLoad":
        """Return the load with a later heartbeat; the same load when it is no later one."""
        seconds = _growth(self.last.uptime_s, heartbeat.uptime_s)
        if heartbeat.uptime_s == self.last.uptime_s or seconds <= 0:
            return self
        processed = _growth(_total_records(self.last), _total_records(heartbeat))
        cpu_s = _growth(self.last.cpu_s, heartbeat.cpu_s)
        scripts_cpu_s = _growth(self.last.scripts_cpu_s, heartbeat.scripts_cpu_s)
        return _WorkerLoad(heartbeat, processed / seconds, max(cpu_s, scripts_cpu_s) / seconds)


@dataclass(slots=True)
class LoadHistory:
    """The samples of a pipeline's load since its workers last changed.

    Attributes:
        samples: The samples, oldest first.
    """

    samples: deque[LoadSample] = field(default_factory=deque)
    _workers: dict[str, _WorkerLoad] = field(default_factory=dict)
    _changed_at: float = float("-inf")

    def clear(self, now: float) -> None:
        """Forget all samples, because the workers change or wait for a store or for Kafka."""
        self.samples.clear()
        self._workers.clear()
        self._changed_at = now

    def add(self, now: float, lag: int | None, heartbeats: Mapping[str, Heartbeat]) -> Sequence[LoadSample]:
        """Add a sample, and return all samples.

        Within SETTLE_S seconds of a change of the workers, no sample is added and the result is empty.

        Args:
            now: The present time, in monotonic seconds.
            lag: The lag of the consumer group; None for a source without offsets.
            heartbeats: The last heartbeats of all workers, by the name of the worker.
        """
        if heartbeats.keys() != self._workers.keys():
            self.clear(now)
            self._workers = {name: _WorkerLoad(heartbeat) for name, heartbeat in heartbeats.items()}
        self._workers = {name: self._workers[name].next(heartbeat) for name, heartbeat in heartbeats.items()}
        if now - self._changed_at < SETTLE_S:
            return ()
        last = self.samples[-1] if self.samples else LoadSample(now, lag, 0.0, 0.0)
        seconds = now - last.at
        processed = sum(worker.processed_per_s for worker in self._workers.values()) * seconds
        busy_s = sum(worker.busy_share for worker in self._workers.values()) * seconds
        self.samples.append(LoadSample(now, lag, last.total_records + processed, last.busy_s + busy_s))
        while self.samples[0].at < now - KEPT_S:
            self.samples.popleft()
        return tuple(self.samples)


def _total_records(heartbeat: Heartbeat) -> int:
    return heartbeat.counters.get("messages_received", 0)


def _growth(before: float, after: float) -> float:
    """Return by how much a total has grown.

    A smaller total is of a new process, and began at 0.
    """
    return after - before if after >= before else after
