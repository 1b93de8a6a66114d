"""A Pod as Kubernetes reports it, in the terms of the orchestrator."""

from dataclasses import dataclass
from datetime import UTC, datetime

from lightkube.models.core_v1 import ContainerStateTerminated, ContainerStatus
from lightkube.resources.core_v1 import Pod

from headwater.orchestrators.kubernetes import labels
from headwater.orchestrators.kubernetes.manifests import CONTAINER


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How the last container of a Pod ended.

    Attributes:
        reason: Kubernetes' word for it: `OOMKilled`, `Error` or `Completed`.
        exit_status: The exit status; after a kill, 128 plus the number of the signal.
        message: The termination message of the container, or the end of its log.
        at: When it ended.
    """

    reason: str
    exit_status: int
    message: str
    at: datetime

    @property
    def is_oom_kill(self) -> bool:
        """Whether the container was killed for memory."""
        return self.reason == "OOMKilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """A worker's Pod.

    Attributes:
        name: The name of the Pod.
        uid: Kubernetes' id of the Pod. Another Pod of the same name has another one.
        worker_set_id: The worker set.
        slot: The number of the slot.
        spec_hash: The hash of the worker's spec.
        template_hash: The hash of the template with which the Pod was made.
        secret_name: The Secret that the Pod belongs to.
        is_worker: Whether the Pod is the slot's worker; otherwise it waits for the hand-over as a successor.
        ip: The address of the Pod; empty while it has none.
        is_deleting: Whether the deletion of the Pod was requested.
        delete_by: When the Pod must be gone, if its deletion was requested.
        has_failed: Whether the Pod was evicted or its node was shut down: Kubernetes never starts it again.
        is_ready: Whether the kubelet found the worker ready.
        is_running: Whether the container runs.
        restarts: How often the kubelet has restarted the container.
        earlier_restarts: The restarts of the Pods that this Pod has replaced.
        created_at: When the Pod was created.
        started_at: When the present container was started, if it runs.
        last_end: How the container ended the last time: the present one if it has ended, else the one before it.
        waiting: Why the container does not run: Kubernetes' word, such as `CrashLoopBackOff` or `ErrImagePull`.
        waiting_message: The sentence that belongs to `waiting`, or the reason why no node was found.
    """

    name: str
    uid: str
    worker_set_id: str
    slot: int
    spec_hash: str
    template_hash: str
    is_worker: bool
    secret_name: str = ""
    ip: str = ""
    is_deleting: bool = False
    delete_by: datetime | None = None
    has_failed: bool = False
    is_ready: bool = False
    is_running: bool = False
    restarts: int = 0
    earlier_restarts: int = 0
    created_at: datetime
    started_at: datetime | None = None
    last_end: ContainerEnd | None = None
    waiting: str = ""
    waiting_message: str = ""

    @property
    def worker_name(self) -> str:
        """The name of the worker in `deploy/stats`, which does not change with the spec."""
        return f"{self.worker_set_id}-{self.slot}"


def observe(pod: Pod) -> ObservedPod:
    """Return what the orchestrator needs to know of a Pod."""
    metadata, status = pod.metadata, pod.status
    assert metadata is not None
    assert metadata.labels is not None
    conditions = {each.type: each for each in (status.conditions if status else None) or []}
    containers = (status.containerStatuses if status else None) or []
    container = next((each for each in containers if each.name == CONTAINER), None)
    state = container.state if container else None
    running = state.running if state else None
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    waiting = state.waiting if state else None
    return ObservedPod(
        name=metadata.name or "",
        uid=metadata.uid or "",
        worker_set_id=metadata.labels[labels.WORKER_SET],
        slot=int(metadata.labels[labels.SLOT]),
        spec_hash=metadata.labels[labels.SPEC],
        template_hash=metadata.labels.get(labels.TEMPLATE, ""),
        is_worker=metadata.labels[labels.ROLE] == labels.WORKER,
        secret_name=next((owner.name for owner in metadata.ownerReferences or []), ""),
        ip=(status.podIP if status else None) or "",
        is_deleting=metadata.deletionTimestamp is not None,
        delete_by=metadata.deletionTimestamp,
        has_failed=status is not None and status.phase in ("Failed", "Succeeded"),
        is_ready=ready is not None and ready.status == "True",
        is_running=running is not None,
        restarts=container.restartCount if container else 0,
        earlier_restarts=int((metadata.annotations or {}).get(labels.RESTARTS, "0")),
        created_at=metadata.creationTimestamp or datetime.now(UTC),
        started_at=running.startedAt if running else None,
        last_end=_last_end(container),
        waiting=(waiting.reason if waiting else "") or "",
        waiting_message=(waiting.message if waiting else scheduled.message if scheduled else "") or "",
    )


def _last_end(container: ContainerStatus | None) -> ContainerEnd | None:
    """Return how the last container ended.

    It may be the present one, which the kubelet has not restarted yet.
    """
    if container is None:
        return None
    ends = [state.terminated for state in (container.state, container.lastState) if state and state.terminated]
    return _container_end(ends[0]) if ends else None


def _container_end(end: ContainerStateTerminated) -> ContainerEnd:
    at = end.finishedAt or datetime.now(UTC)
    return ContainerEnd(end.reason or "Error", end.exitCode, (end.message or "").strip(), at)
