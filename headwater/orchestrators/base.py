"""Protocol of an orchestrator: makes worker sets run, on this machine or elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from headwater.model.deployment import LogLine, WorkerStatus
from headwater.model.worker import Pulse, WorkerSet


class Orchestrator(Protocol):
    """Called by the controller only. Implementations: orchestrators/process.py, and memory.py for tests."""

    def ensure(self, wanted: WorkerSet) -> None:
        """Make the running set equal this one. Idempotent; returns before the workers are ready; same hash: no-op.

        A set that runs is replaced without a gap in service: its successors start beside it, and prepare all but the
        reading of records. When all of them are prepared, each slot hands over: the worker finishes what it has read,
        commits and ends, then its successor joins. Until then, asking for the running set again calls it off.
        """

    def lead(self, for_s: float) -> None:
        """Say that this controller leads for so long from now on.

        After that a worker whose place another one took (FENCED_STATUS) is not started again until this is called: the
        other one may be the next leader's, and two that run the same worker would take its place from each other.
        """

    def drop(self, deployment_id: str) -> bool:
        """Stop all workers of a deployment. Idempotent; True only when all of them are gone."""

    def status(self, deployment_id: str) -> Sequence[WorkerStatus]:
        """The workers as last observed (at most 1 s old); empty when there is no set. Never blocks on a worker.

        Raises OrchestratorUnavailable, never an empty list, when the state can't be read.
        """

    def successors(self, deployment_id: str) -> Sequence[WorkerStatus]:
        """The workers that prepare to take over, as last observed; empty when no hand-over goes on."""

    def take_logs(self) -> dict[str, list[LogLine]]:
        """The lines that workers wrote since the last call, oldest first, by deployment id."""

    def pulses(self) -> Sequence[Pulse]:
        """The last heartbeat of every worker that has, or should have, a part in a group: not of successors."""

    def running(self) -> frozenset[str]:
        """The ids of all deployments that have workers: what the sweeper compares."""

    @property
    def failing(self) -> str:
        """What fails in looking after the workers now, as a sentence; empty while all of it works."""

    def close(self) -> None:
        """Stop all workers, as at the end of the process."""
