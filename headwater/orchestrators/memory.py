"""The orchestrator's twin in memory: worker sets are ready as soon as `settle` is called, or never."""

from collections.abc import Sequence
from datetime import UTC, datetime

from headwater.errors import OrchestratorUnavailable
from headwater.model.deployment import Status, WorkerStatus
from headwater.model.worker import WorkerSet


class MemoryOrchestrator:
    """Implements orchestrators.base.Orchestrator. With auto=False workers wait for `settle`."""

    def __init__(self, *, auto: bool = True) -> None:
        self._auto = auto
        self._sets: dict[str, WorkerSet] = {}
        self._ready: dict[str, str] = {}
        self._closed = False

    def ensure(self, wanted: WorkerSet) -> None:
        self._check_open()
        self._sets[wanted.deployment_id] = wanted
        if self._auto:
            self.settle(wanted.deployment_id)

    def settle(self, deployment_id: str) -> None:
        """Let the workers of a deployment become ready."""
        self._ready[deployment_id] = self._sets[deployment_id].spec_hash

    def drop(self, deployment_id: str) -> bool:
        self._check_open()
        self._sets.pop(deployment_id, None)
        self._ready.pop(deployment_id, None)
        return True

    def status(self, deployment_id: str) -> Sequence[WorkerStatus]:
        self._check_open()
        wanted = self._sets.get(deployment_id)
        if wanted is None:
            return []
        ready = self._ready.get(deployment_id) == wanted.spec_hash
        return [
            WorkerStatus(
                name=f"{deployment_id}-{slot}",
                status=Status.RUNNING if ready else Status.PENDING,
                is_ready=ready,
                start_time=datetime.now(UTC),
                spec_hash=wanted.spec_hash,
            )
            for slot in range(wanted.slots)
        ]

    def running(self) -> frozenset[str]:
        self._check_open()
        return frozenset(self._sets)

    def close(self) -> None:
        self._closed = True
        self._sets.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise OrchestratorUnavailable("The orchestrator is closed.")
