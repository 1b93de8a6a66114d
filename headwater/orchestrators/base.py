"""Protocol of an orchestrator, which runs worker sets on this machine or elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from headwater.model.deployment import LogLine, ObservedWorker
from headwater.model.worker_protocol import WorkerSnapshot
from headwater.model.worker_spec import WorkerSet


class Orchestrator(Protocol):
    """Runs worker sets for the controller.

    Implementations: orchestrators/process.py for processes of this machine, orchestrators/kubernetes/orchestrator.py
    for Pods, and tests/support/memory/orchestrator.py for tests.
    """

    def ensure(self, wanted: WorkerSet) -> None:
        """Make the running worker set with the same id equal to `wanted`.

        The call is idempotent: it does nothing when the same set already runs. It returns before the workers are ready.

        A running set is replaced without downtime. Successors start beside the workers and prepare everything except
        the reading of records. When all successors are prepared, each slot hands over: the worker finishes and commits
        what it has read and ends, then its successor joins the consumer group. Before the first hand-over, a call with
        the running set cancels the replacement.

        When only the number of slots differs from the running set, the workers that stay continue to run. New workers
        join the consumer group, and workers that leave it commit what they have read first. During a hand-over, no
        worker leaves the group: the process orchestrator ignores a changed number of slots in a call during the
        hand-over, and applies the number in the first call after the hand-over.
        """

    def set_lease_remaining(self, remaining_s: float) -> None:
        """Tell the orchestrator for how many seconds this controller still holds the lease.

        Without the lease, the process orchestrator does not restart a worker that exited because it was fenced
        (FENCED_STATUS). The worker that fenced it may belong to the next leader, and the two workers would fence each
        other repeatedly. Without the lease, the orchestrator for Kubernetes forgets all wanted worker sets and changes
        no Pod: the next leader manages the same Pods, and the kubelet restarts their containers.
        """

    def stop_workers(self, worker_set_id: str) -> bool:
        """Stop all workers of a worker set.

        Idempotent; returns True only when all of them have ended.
        """

    def status(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        """Return the workers as they were last observed; empty when there is no set.

        Never blocks on a worker. A local worker sends a heartbeat each second. The state of a Pod may be 10 s old, and
        the report of its worker 20 s (`CURRENT_FOR_S` in kubernetes/cluster.py and kubernetes/report_reader.py). Raises
        OrchestratorUnavailable when the state can't be read, since an empty list would wrongly mean that no worker
        runs.
        """

    def successors(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        """Return the workers with the new spec that are being prepared to take over.

        Returns an empty result when no worker with an older spec is being replaced.
        """

    def take_logs(self) -> dict[str, list[LogLine]]:
        """Return the log lines of the workers since the last call, oldest first, by worker set id."""

    def worker_snapshots(self) -> Sequence[WorkerSnapshot]:
        """Return the last heartbeat of every worker that reads or should read the source.

        Successors are not included.
        """

    def worker_set_ids(self) -> frozenset[str]:
        """Return the ids of the worker sets that should run, or of which something is left.

        They belong to deployments and to redrives.
        """

    @property
    def current_failure(self) -> str:
        """The current failures of the orchestrator, as text; empty when nothing fails."""

    def close(self) -> None:
        """Free all resources, at the end of the process.

        Workers that are processes of this machine are stopped. Pods keep running.
        """
