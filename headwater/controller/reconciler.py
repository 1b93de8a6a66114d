"""Reconciles a deployment: observes its workers, plans actions and carries them out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from headwater.controller.actions import SyncTopics, TopicSync
from headwater.controller.deployment_resources import WorkerSettings, worker_set
from headwater.controller.deployment_sources import Sources
from headwater.controller.executor import Executor
from headwater.controller.plan import (
    DesiredState,
    ObservedState,
    Plan,
    RevisionWorkers,
    WorkerProgress,
    fallback_of,
    plan,
    predecessor_of,
    roll_back_or_fail,
    target_of,
)
from headwater.errors import DeployFailed
from headwater.model.deployment import DeployedRevision, Deployment, DesiredPhase, Observation
from headwater.orchestrators.base import Orchestrator

log = structlog.get_logger(__name__)

MAX_PLANS = 2
"""A plan that stores no observation is followed by a second plan, for example to evaluate workers that were started."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Reconciles deployments. Thread-safe for different deployments.

    Attributes:
        settings: The settings that all workers share.
        clock: Returns monotonic seconds.
    """

    orchestrator: Orchestrator
    executor: Executor
    settings: WorkerSettings
    sources: Sources
    clock: Callable[[], float]
    _progress: dict[str, WorkerProgress | None] = field(default_factory=dict)
    _desired: dict[str, DesiredState] = field(default_factory=dict)
    _due_syncs: dict[str, TopicSync] = field(default_factory=dict)

    def is_idle(self, deployment: Deployment) -> bool:
        """Whether reconciling a deployment would do nothing. Raises Unavailable.

        The check is cheap and sends no request to Kafka.
        """
        planned = self._plan(self._desired_state(deployment), is_second_plan=False)
        if planned.actions:
            return False
        self._progress[deployment.id] = planned.progress
        return True

    def reconcile(self, deployment: Deployment) -> Observation | None:
        """Bring a deployment nearer to its desired state.

        Returns the observed state; None when it did not change. Raises Unavailable when a later call may succeed.
        """
        desired = self._desired_state(deployment)
        try:
            for step in range(MAX_PLANS):
                planned = self._plan(desired, is_second_plan=step > 0)
                observation = self._run(deployment, planned)
                if observation is not None or not planned.actions:
                    return observation
        except DeployFailed as error:
            return self._run(deployment, roll_back_or_fail(desired, error.detail))
        return None

    def request_syncs(self, due: Mapping[str, TopicSync]) -> None:
        """Let the next reconciliation of these deployments bring their topics up to date."""
        self._due_syncs.update(due)

    def discard(self, deployment_id: str) -> None:
        """Forget a deployment that has ended."""
        self._due_syncs.pop(deployment_id, None)
        self._progress.pop(deployment_id, None)
        self._desired.pop(deployment_id, None)
        self.executor.traces.discard(deployment_id)

    def _plan(self, desired: DesiredState, *, is_second_plan: bool) -> Plan:
        deployment_id = desired.deployment.id
        observed = ObservedState(
            self.clock(),
            workers=self.orchestrator.status(deployment_id),
            successors=self.orchestrator.successors(deployment_id),
            progress=self._progress.get(deployment_id),
            is_second_plan=is_second_plan,
            due_sync=self._due_syncs.get(deployment_id),
        )
        workers, traces = desired.target.worker_set, self.executor.traces
        traces.observe(desired.deployment, workers, observed.workers, observed.successors)
        return plan(desired, observed)

    def _run(self, deployment: Deployment, planned: Plan) -> Observation | None:
        """Carry out a plan, and remember its progress when all actions are done.

        An interrupted plan is repeated.
        """
        observation = self.executor.run(deployment, planned.actions)
        if observation is not None:
            self.executor.traces.record_observation(observation)
        self._progress[deployment.id] = planned.progress
        if any(isinstance(action, SyncTopics) for action in planned.actions):
            self._due_syncs.pop(deployment.id, None)
        return observation

    def _desired_state(self, deployment: Deployment) -> DesiredState:
        """Return the desired state. It is cached until the stored deployment changes.

        The hash of a worker set covers all scripts, so it is expensive.
        """
        cached = self._desired.get(deployment.id)
        if cached is not None and cached.deployment is deployment:
            return cached
        if deployment.unreadable_reason and deployment.desired is DesiredPhase.RUNNING:
            log.error(
                "a deployment can't be read; its workers are not changed",
                deployment=deployment.id,
                reason=deployment.unreadable_reason,
            )
        fallback, predecessor = fallback_of(deployment), predecessor_of(deployment)
        desired = DesiredState(
            deployment,
            self._revision_workers(deployment, target_of(deployment)),
            None if fallback is None else self._revision_workers(deployment, fallback),
            None if predecessor is None else self._revision_workers(deployment, predecessor),
        )
        self._desired[deployment.id] = desired
        return desired

    def _revision_workers(self, deployment: Deployment, revision: DeployedRevision) -> RevisionWorkers:
        if revision.config.unreadable_reason:
            return RevisionWorkers(revision, None, revision.config.unreadable_reason)
        try:
            binding = self.sources.binding(revision.config.source)
        except DeployFailed as error:
            return RevisionWorkers(revision, None, error.detail)
        return RevisionWorkers(revision, worker_set(deployment, revision, binding, self.settings))
