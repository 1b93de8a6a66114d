"""Decides the next actions on the Pods of a worker set, by a pure function.

The plan depends only on the wanted worker set, the Pods, and what their workers report. So a new controller continues
where another one stopped. A replacement creates a successor beside each worker. When all successors are prepared, each
worker is asked to stop; when it has closed its Kafka clients, its successor joins the consumer group in its place.

A Pod that runs the wanted WorkerSpec, but was made with another template (settings.py), is outdated: it has other
settings, such as the image before an upgrade, or other files, such as CA certificates that were replaced. It keeps
working until its slot is updated. An update is the replacement of one slot; few slots are updated at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.model.worker_report import WorkerReport
from headwater.orchestrators.kubernetes.observed_pod import ObservedPod


@dataclass(frozen=True, slots=True)
class WantedSet:
    """The part of a WorkerSet that a plan needs, and how its Pods should be made.

    Attributes:
        id: The id of the worker set.
        slots: The number of workers.
        spec_hash: The spec of each worker.
        template_hash: The hash of the template with which Pods are made.
    """

    id: str
    slots: int
    spec_hash: str
    template_hash: str


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the Pod of a slot.

    Attributes:
        slot: The number of the slot.
        is_worker: Whether the Pod is the slot's worker from the beginning. While a worker of any slot is ending, it is
            a successor, which waits for the hand-over.
        earlier_restarts: How often the previous workers of the slot were restarted.
    """

    slot: int
    is_worker: bool
    earlier_restarts: int = 0


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Ask a worker to finish its batches and to close its Kafka clients.

    Attributes:
        pod: The Pod of the worker.
        leave_group: Whether the worker leaves its consumer group, because no worker follows in its slot.
    """

    pod: ObservedPod
    leave_group: bool


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


PodAction = CreatePod | StopWorker | DeletePod | PromotePod | JoinGroup
Reports = Mapping[str, WorkerReport]
"""The last report of each worker that can be reached, by the uid of its Pod."""


def plan_teardown(pods: Sequence[ObservedPod], reports: Reports) -> list[StopWorker | DeletePod]:
    """Return the actions that end all workers of a worker set."""
    return [action for pod in pods for action in _end(pod, reports, leave_group=True)]


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """The next changes to the Pods of a worker set that should run.

    Attributes:
        actions: The actions.
        updating: The slots in which a new Pod takes over from an outdated one.
    """

    actions: list[PodAction]
    updating: frozenset[int]


def plan_rollout(wanted: WantedSet, pods: Sequence[ObservedPod], reports: Reports, *, max_updates: int) -> RolloutPlan:
    """Return the actions that bring the Pods of a worker set closer to the wanted one.

    Args:
        wanted: What should run.
        pods: All Pods of the worker set.
        reports: What their workers report.
        max_updates: How many slots with an outdated Pod may be updated at a time.
    """
    rollout = _Rollout(wanted, pods, reports, max_updates)
    return RolloutPlan(rollout.actions(), rollout.updating)


def _end(pod: ObservedPod, reports: Reports, *, leave_group: bool) -> list[StopWorker | DeletePod]:
    """Return the next action that ends a worker.

    A worker that answers, and that was permitted to join its group, is asked to stop. Otherwise its Pod is deleted.
    """
    if pod.is_deleting:
        return []
    report = reports.get(pod.uid)
    if report is None or report.has_ended or not report.may_join or not pod.is_running:
        return [DeletePod(pod)]
    return [StopWorker(pod, leave_group)]


class _Rollout:
    """Plans one rollout.

    A slot keeps the Pod that has the wanted spec and template, or an outdated one whose update has not begun. All other
    Pods end.

    Attributes:
        updating: The slots in which a new Pod takes over from an outdated one.
    """

    def __init__(self, wanted: WantedSet, pods: Sequence[ObservedPod], reports: Reports, max_updates: int) -> None:
        self._wanted = wanted
        self._reports = reports
        same_spec = [pod for pod in pods if pod.spec_hash == wanted.spec_hash and pod.slot < wanted.slots]
        current = {pod.slot: pod for pod in same_spec if pod.template_hash == wanted.template_hash}
        outdated = {
            pod.slot: pod
            for pod in sorted(same_spec, key=lambda pod: pod.created_at)
            if pod.template_hash != wanted.template_hash and pod.is_worker and self._is_usable(pod)
        }
        waiting = sorted(outdated.keys() - current.keys())
        begun = waiting[:max_updates] if self._may_begin_updates(current.values(), pods) else []
        self.updating = frozenset({*(outdated.keys() & current.keys()), *begun})
        self._kept = current | {slot: outdated[slot] for slot in waiting if slot not in begun}
        kept_uids = {pod.uid for pod in self._kept.values()}
        ending = [pod for pod in pods if pod.uid not in kept_uids]
        self._ending_workers = [pod for pod in ending if pod.is_worker]
        self._ending_successors = [pod for pod in ending if not pod.is_worker]

    def actions(self) -> list[PodAction]:
        """Return the next actions."""
        actions: list[PodAction] = [
            action for pod in self._ending_successors for action in _end(pod, self._reports, leave_group=False)
        ]
        for slot in range(self._wanted.slots):
            actions += self._prepare(slot)
        if self._may_hand_over():
            for slot in range(self._wanted.slots):
                actions += self._hand_over(slot)
            actions += self._end_surplus()
        return actions

    def _prepare(self, slot: int) -> list[PodAction]:
        """Return the action that creates the Pod of a slot, or deletes it when it is not usable."""
        pod = self._kept.get(slot)
        if pod is None:
            predecessors = [each for each in self._ending_workers if each.slot == slot]
            restarts = max((each.restarts + each.earlier_restarts for each in predecessors), default=0)
            return [CreatePod(slot, is_worker=not self._ending_workers, earlier_restarts=restarts)]
        return [] if pod.is_deleting or self._is_usable(pod) else [DeletePod(pod)]

    def _may_begin_updates(self, current: Iterable[ObservedPod], pods: Sequence[ObservedPod]) -> bool:
        """Return whether further slots may be updated.

        They may be updated while all updated Pods are ready and no worker with another spec is being replaced.
        """
        replaces_spec = any(pod.is_worker and pod.spec_hash != self._wanted.spec_hash for pod in pods)
        return not replaces_spec and all(pod.is_ready for pod in current)

    def _is_usable(self, pod: ObservedPod) -> bool:
        """Return whether the worker of a Pod can still work.

        It can't when the Pod is being deleted or has failed, or when the worker has ended.
        """
        report = self._reports.get(pod.uid)
        return not pod.is_deleting and not pod.has_failed and not (report is not None and report.has_ended)

    def _may_hand_over(self) -> bool:
        """Return whether slots may hand over.

        The replacement of all workers begins when all successors are prepared. When a kept Pod is a worker already, the
        replacement has begun, or only single slots are updated or removed; these slots hand over one by one.
        """
        if not self._ending_workers or any(pod.is_worker for pod in self._kept.values()):
            return True
        return len(self._kept) == self._wanted.slots and all(self._is_prepared(pod) for pod in self._kept.values())

    def _is_prepared(self, pod: ObservedPod) -> bool:
        report = self._reports.get(pod.uid)
        if report is None or pod.is_deleting or report.has_ended:
            return False
        return report.may_join or (report.heartbeat is not None and report.heartbeat.state == "prepared")

    def _hand_over(self, slot: int) -> list[PodAction]:
        """Return the actions by which the worker of a slot ends, and the new Pod takes over."""
        predecessors = [pod for pod in self._ending_workers if pod.slot == slot]
        pod = self._kept.get(slot)
        if predecessors and (pod is None or not self._is_prepared(pod)):
            return []
        ending: list[PodAction] = [
            action for each in predecessors for action in _end(each, self._reports, leave_group=False)
        ]
        if pod is None or pod.is_deleting or any(not self._has_ended(each) for each in predecessors):
            return ending
        report = self._reports.get(pod.uid)
        if not pod.is_worker:
            return [PromotePod(pod), *ending]
        needs_permission = report is not None and not report.may_join and not report.has_ended
        return [JoinGroup(pod), *ending] if needs_permission else ending

    def _has_ended(self, pod: ObservedPod) -> bool:
        """Return whether a worker has closed its Kafka clients, although its Pod may still exist."""
        report = self._reports.get(pod.uid)
        return report is not None and report.has_ended

    def _end_surplus(self) -> Sequence[PodAction]:
        """Return the actions that end the workers of slots that are no longer wanted.

        They leave the consumer group, so they wait until all hand-overs are over: after a rebalance, Kafka could reject
        the last commits of workers that are being replaced.
        """
        surplus = [pod for pod in self._ending_workers if pod.slot >= self._wanted.slots]
        hands_over = any(pod.slot < self._wanted.slots and not self._has_ended(pod) for pod in self._ending_workers)
        return (
            [] if hands_over else [action for pod in surplus for action in _end(pod, self._reports, leave_group=True)]
        )
