"""A round over one deployment: observe, plan, act, and return the observed state."""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from headwater.controller.executor import Executor
from headwater.controller.plan import (
    DesiredState,
    ObservedState,
    Plan,
    RevisionWorkers,
    Rollout,
    fallback_of,
    give_up,
    plan,
    predecessor_of,
    target_of,
)
from headwater.controller.resources import WorkerSettings, worker_set
from headwater.controller.sources import Sources
from headwater.errors import DeployFailed
from headwater.model.deployment import Deployment, Desired, Observed, Revision
from headwater.orchestrators.base import Orchestrator

log = structlog.get_logger(__name__)

STEPS_PER_ROUND = 2
"""A plan that asks for workers is followed by one that looks at them, in the same round."""


@dataclass(slots=True)
class Reconciler:
    """Runs rounds over deployments. Thread-safe for different deployments. clock: monotonic seconds."""

    orchestrator: Orchestrator
    executor: Executor
    settings: WorkerSettings
    sources: Sources
    clock: Callable[[], float]
    _rollouts: dict[str, Rollout | None] = field(default_factory=dict)
    _desired: dict[str, DesiredState] = field(default_factory=dict)

    def is_idle(self, deployment: Deployment) -> bool:
        """Whether a round over a deployment would do nothing. Cheap, and asks no broker. Raises Unavailable."""
        planned = self._plan(self._desired_state(deployment), ensured=False)
        if planned.actions:
            return False
        self._rollouts[deployment.id] = planned.rollout
        return True

    def round(self, deployment: Deployment) -> Observed | None:
        """Bring a deployment nearer to its desired state. Returns the observed state; None when it did not change.

        Raises Unavailable when a later round may succeed.
        """
        desired = self._desired_state(deployment)
        try:
            for step in range(STEPS_PER_ROUND):
                planned = self._plan(desired, ensured=step > 0)
                news = self._run(deployment, planned)
                if news is not None or not planned.actions:
                    return news
        except DeployFailed as error:
            return self._run(deployment, give_up(desired, error.detail))
        return None

    def discard(self, deployment_id: str) -> None:
        """Drop the rollout of a deployment that has ended."""
        self._rollouts.pop(deployment_id, None)
        self._desired.pop(deployment_id, None)

    def _plan(self, desired: DesiredState, *, ensured: bool) -> Plan:
        deployment_id = desired.deployment.id
        observed = ObservedState(
            self.clock(),
            self.orchestrator.status(deployment_id),
            self.orchestrator.successors(deployment_id),
            self._rollouts.get(deployment_id),
            ensured,
        )
        return plan(desired, observed)

    def _run(self, deployment: Deployment, planned: Plan) -> Observed | None:
        """Carry out a plan, and remember its rollout once all actions are done: an interrupted plan begins anew."""
        news = self.executor.run(deployment, planned.actions)
        self._rollouts[deployment.id] = planned.rollout
        return news

    def _desired_state(self, deployment: Deployment) -> DesiredState:
        """The desired state, computed once per stored state, since the hash of a worker set covers all scripts."""
        known = self._desired.get(deployment.id)
        if known is not None and known.deployment is deployment:
            return known
        if deployment.unreadable and deployment.desired is Desired.RUNNING:
            log.error("a deployment is left alone", deployment=deployment.id, reason=deployment.unreadable)
        fallback, predecessor = fallback_of(deployment), predecessor_of(deployment)
        desired = DesiredState(
            deployment,
            self._revision_workers(deployment, target_of(deployment)),
            None if fallback is None else self._revision_workers(deployment, fallback),
            None if predecessor is None else self._revision_workers(deployment, predecessor),
        )
        self._desired[deployment.id] = desired
        return desired

    def _revision_workers(self, deployment: Deployment, revision: Revision) -> RevisionWorkers:
        if revision.config.unreadable:
            return RevisionWorkers(revision, None, revision.config.unreadable)
        try:
            binding = self.sources.binding(revision.config.source)
        except DeployFailed as error:
            return RevisionWorkers(revision, None, error.detail)
        return RevisionWorkers(revision, worker_set(deployment, revision, binding, self.settings))
