"""In-memory implementation of the orchestrator, for tests."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from headwater.errors import OrchestratorUnavailable
from headwater.model.deployment import LogLine, ObservedWorker, ObservedWorkerStatus
from headwater.model.worker_protocol import Heartbeat, WorkerSnapshot
from headwater.model.worker_spec import WorkerSet


class MemoryOrchestrator:
    """Implements orchestrators.base.Orchestrator.

    With auto=False, workers become ready only by `make_ready`.

    Attributes:
        heartbeats: Heartbeats of ready workers by name. Other ready workers have a default heartbeat.
        deaths: The number of deaths by worker set id and spec hash.
        remaining_leases_s: The arguments of all calls of `set_lease_remaining`.
    """

    def __init__(self, *, auto: bool = True) -> None:
        self.auto = auto
        self._sets: dict[str, WorkerSet] = {}
        self._next: dict[str, WorkerSet] = {}
        self._ready: set[str] = set()
        self._closed = False
        self.current_failure = ""
        self._shown: dict[tuple[str, str, int, bool, int], tuple[ObservedWorker, ...]] = {}
        self._started_at: dict[tuple[str, str], datetime] = {}
        self.heartbeats: dict[str, Heartbeat] = {}
        self.deaths: Counter[tuple[str, str]] = Counter()
        self.remaining_leases_s: list[float] = []

    def ensure(self, wanted: WorkerSet) -> None:
        self._check_open()
        self._started_at.setdefault((wanted.id, wanted.spec_hash), datetime.now(UTC))
        known = self._sets.setdefault(wanted.id, wanted)
        self._next.pop(wanted.id, None)
        if known.spec_hash == wanted.spec_hash:
            self._sets[wanted.id] = wanted
        else:
            self._next[wanted.id] = wanted
        if self.auto:
            self.make_ready(wanted.id)

    def make_ready(self, worker_set_id: str) -> None:
        """Make the newest workers of a worker set ready."""
        if worker_set_id in self._next:
            self._sets[worker_set_id] = self._next.pop(worker_set_id)
        self._ready.add(worker_set_id)

    def die(self, worker_set_id: str) -> None:
        """Count a death of the newest workers of a worker set: of the successors, if there are any."""
        newest = self._next.get(worker_set_id)
        if newest is None:
            newest = self._sets[worker_set_id]
            self._ready.discard(worker_set_id)
        self.deaths[worker_set_id, newest.spec_hash] += 1

    def set_lease_remaining(self, remaining_s: float) -> None:
        self.remaining_leases_s.append(remaining_s)

    def stop_workers(self, worker_set_id: str) -> bool:
        self._check_open()
        self._sets.pop(worker_set_id, None)
        self._next.pop(worker_set_id, None)
        self._ready.discard(worker_set_id)
        return True

    def status(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        self._check_open()
        return self._statuses(self._sets.get(worker_set_id), ready=worker_set_id in self._ready)

    def successors(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        self._check_open()
        return self._statuses(self._next.get(worker_set_id), ready=False)

    def _statuses(self, wanted: WorkerSet | None, *, ready: bool) -> Sequence[ObservedWorker]:
        if wanted is None:
            return []
        shown = (wanted.id, wanted.spec_hash, wanted.slots, ready, self.deaths[wanted.id, wanted.spec_hash])
        if shown not in self._shown:
            self._shown[shown] = tuple(self._status(wanted, slot, ready=ready) for slot in range(wanted.slots))
        return self._shown[shown]

    def _status(self, wanted: WorkerSet, slot: int, *, ready: bool) -> ObservedWorker:
        return ObservedWorker(
            name=f"{wanted.id}-{slot}",
            status=ObservedWorkerStatus.RUNNING if ready else ObservedWorkerStatus.PENDING,
            is_ready=ready,
            start_time=self._started_at[wanted.id, wanted.spec_hash],
            spec_hash=wanted.spec_hash,
            deaths=self.deaths[wanted.id, wanted.spec_hash],
        )

    def take_logs(self) -> dict[str, list[LogLine]]:
        self._check_open()
        return {}

    def worker_snapshots(self) -> Sequence[WorkerSnapshot]:
        self._check_open()
        return [
            WorkerSnapshot(
                worker,
                wanted.spec,
                self.heartbeats.get(worker, Heartbeat(state="ready", spec_hash=wanted.spec_hash)),
                is_ready=True,
            )
            for wanted in self._sets.values()
            if wanted.id in self._ready
            for worker in (f"{wanted.id}-{slot}" for slot in range(wanted.slots))
        ]

    def worker_set_ids(self) -> frozenset[str]:
        self._check_open()
        return frozenset(self._sets)

    def close(self) -> None:
        self._closed = True
        self._sets.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise OrchestratorUnavailable("The orchestrator is closed.")
