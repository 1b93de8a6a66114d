"""Decides what happens next to the Pods of a worker set, by a pure function.

The plan depends only on the wanted worker set, the Pods, and what their workers report. So a new controller continues
where another one stopped. A replacement creates a successor beside each worker. When all successors are prepared, each
worker is asked to stop; when it has left Kafka, its successor joins the consumer group in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes.manifests import pod_name
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod


@dataclass(frozen=True, slots=True)
class WantedSet:
    """The part of a WorkerSet that a plan needs."""

    id: str
    slots: int
    spec_hash: str


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the Pod of a slot."""

    slot: int
    is_worker: bool
    earlier_restarts: int = 0


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Ask a worker to finish its batches and to leave Kafka.

    Attributes:
        pod: The Pod of the worker.
        leave: Whether the worker leaves its consumer group, because no worker follows in its slot.
    """

    pod: ObservedPod
    leave: bool


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a Pod.

    Attributes:
        pod: The Pod.
        at_once: Whether Kubernetes does not wait for the end of its container.
    """

    pod: ObservedPod
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class PromotePod:
    """Make a successor the worker of its slot."""

    pod: ObservedPod


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Let a worker join its consumer group."""

    pod: ObservedPod


Action = CreatePod | StopWorker | DeletePod | PromotePod | JoinGroup
Reports = Mapping[str, WorkerReport]
"""The last report of each worker that can be reached, by the uid of its Pod."""


def plan_teardown(pods: Sequence[ObservedPod], reports: Reports) -> list[StopWorker | DeletePod]:
    """Return the actions that end all workers of a worker set."""
    return [action for pod in pods for action in _end(pod, reports, leave=True)]


def plan_rollout(wanted: WantedSet, pods: Sequence[ObservedPod], reports: Reports) -> list[Action]:
    """Return the actions that bring the Pods of a worker set closer to the wanted one.

    Args:
        wanted: What should run.
        pods: All Pods of the worker set.
        reports: What their workers report.
    """
    return _Rollout(wanted, pods, reports).actions()


def _end(pod: ObservedPod, reports: Reports, *, leave: bool) -> list[StopWorker | DeletePod]:
    """Return the next action that ends a worker.

    A worker that has joined and answers is asked to stop. Otherwise its Pod is deleted.
    """
    if pod.is_deleting:
        return []
    report = reports.get(pod.uid)
    if report is None or report.has_ended or not report.may_join or not pod.is_running:
        return [DeletePod(pod)]
    return [StopWorker(pod, leave)]


class _Rollout:
    def __init__(self, wanted: WantedSet, pods: Sequence[ObservedPod], reports: Reports) -> None:
        self._wanted = wanted
        self._reports = reports
        names = {pod_name(wanted.id, slot, wanted.spec_hash): slot for slot in range(wanted.slots)}
        self._new = {names[pod.name]: pod for pod in pods if pod.name in names}
        old = [pod for pod in pods if pod.name not in names]
        self._old_workers = [pod for pod in old if pod.is_worker]
        self._old_successors = [pod for pod in old if not pod.is_worker]

    def actions(self) -> list[Action]:
        """Return the next actions."""
        actions: list[Action] = [
            action for pod in self._old_successors for action in _end(pod, self._reports, leave=False)
        ]
        for slot in range(self._wanted.slots):
            actions += self._prepare(slot)
        if self._may_hand_over():
            for slot in range(self._wanted.slots):
                actions += self._hand_over(slot)
            actions += self._end_surplus()
        return actions

    def _prepare(self, slot: int) -> list[Action]:
        """Return the action that brings the Pod of a slot into existence."""
        pod = self._new.get(slot)
        if pod is None:
            predecessors = [each for each in self._old_workers if each.slot == slot]
            restarts = max((each.restarts + each.earlier_restarts for each in predecessors), default=0)
            return [CreatePod(slot, is_worker=not self._old_workers, earlier_restarts=restarts)]
        report = self._reports.get(pod.uid)
        is_useless = pod.has_failed or (report is not None and report.has_ended)
        return [DeletePod(pod)] if is_useless and not pod.is_deleting else []

    def _may_hand_over(self) -> bool:
        """Return whether the hand-over may begin, or has begun.

        It begins when all successors are prepared.
        """
        if not self._old_workers or any(pod.is_worker for pod in self._new.values()):
            return True
        return len(self._new) == self._wanted.slots and all(self._is_prepared(pod) for pod in self._new.values())

    def _is_prepared(self, pod: ObservedPod) -> bool:
        report = self._reports.get(pod.uid)
        if report is None or pod.is_deleting or report.has_ended:
            return False
        return report.may_join or (report.heartbeat is not None and report.heartbeat.state == "prepared")

    def _hand_over(self, slot: int) -> list[Action]:
        """Return the actions by which the worker of a slot ends, and the new Pod takes over."""
        predecessors = [pod for pod in self._old_workers if pod.slot == slot]
        pod = self._new.get(slot)
        if predecessors and (pod is None or not self._is_prepared(pod)):
            return []
        ending: list[Action] = [action for each in predecessors for action in _end(each, self._reports, leave=False)]
        if pod is None or pod.is_deleting or any(not self._has_left(each) for each in predecessors):
            return ending
        report = self._reports.get(pod.uid)
        if not pod.is_worker:
            return [PromotePod(pod), *ending]
        needs_join = report is not None and not report.may_join and not report.has_ended
        return [JoinGroup(pod), *ending] if needs_join else ending

    def _has_left(self, pod: ObservedPod) -> bool:
        """Return whether a worker has left Kafka, although its Pod may still exist."""
        report = self._reports.get(pod.uid)
        return report is not None and report.has_ended

    def _end_surplus(self) -> Sequence[Action]:
        """Return the actions that end the workers of slots that are no longer wanted.

        They leave the consumer group, so they wait until all hand-overs are over: after a rebalance, Kafka could reject
        the last commits of workers that are being replaced.
        """
        surplus = [pod for pod in self._old_workers if pod.slot >= self._wanted.slots]
        hands_over = any(pod.slot < self._wanted.slots and not self._has_left(pod) for pod in self._old_workers)
        return [] if hands_over else [action for pod in surplus for action in _end(pod, self._reports, leave=True)]
