"""Runs the redrives of dead letters, each in a worker beside the workers of its pipeline.

The redrives of a deployment run one after the other. A redrive waits while the pipeline is paused, being deployed for
the first time or failed, and ends with the deployment.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

import structlog

from headwater.brokers.base import ClusterAdmin, DeploymentResources
from headwater.controller.deployment_resources import (
    WorkerSettings,
    redrive_rules,
    redrive_worker_set,
    worker_set,
)
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.sources import Sources
from headwater.errors import DeployFailed, Unavailable
from headwater.model.binding import KafkaTopic
from headwater.model.deployment import Deployment, DesiredPhase, Phase, dead_letter_topic, worker_group
from headwater.model.redrive import (
    Redrive,
    RedriveProgress,
    RedriveState,
    is_redrive,
    redrive_group,
    redrive_worker_set_id,
)
from headwater.model.worker_spec import WorkerSet
from headwater.orchestrators.base import Orchestrator
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.redrives import RedriveOutcomeStore, RedriveStore

log = structlog.get_logger(__name__)

YIELDS_ABOVE_LAG = 1_000
"""With how many unread records of the stream a redrive yields to the pipeline."""
LAG_CHECK_EVERY_S = 2.0
MAX_WORKERS = 8
"""How many redrives run at once. The others wait, and the redrive that was requested first runs first."""
MAX_WORKERS_OF_OWNER = 2
"""How many redrives of one owner run at once."""


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """The next steps of the redrives of one deployment.

    Attributes:
        ended: The redrives that have ended, and their final states.
        running: The redrive whose worker should run, if there is one.
    """

    ended: Sequence[tuple[Redrive, RedriveState]] = ()
    running: Redrive | None = None


def plan_redrives(
    deployment: Deployment | None, redrives: Sequence[Redrive], progress: Callable[[Redrive], RedriveProgress]
) -> RedrivePlan:
    """Plan the redrives of a deployment that have not ended.

    Args:
        deployment: The deployment; None when it has ended.
        redrives: The redrives in the order of their numbers.
        progress: Returns how far a redrive has come.
    """
    if deployment is None or deployment.desired is DesiredPhase.ABSENT:
        return RedrivePlan([(redrive, "stopped") for redrive in redrives])
    if deployment.desired is not DesiredPhase.RUNNING or deployment.phase is not Phase.RUNNING:
        return RedrivePlan()
    if deployment.unreadable_reason:
        return RedrivePlan()
    first, *others = redrives
    if not progress(first).has_finished:
        return RedrivePlan(running=first)
    return RedrivePlan([(first, "done")], others[0] if others else None)


@dataclass(slots=True, kw_only=True)
class Redrives:
    """Runs the redrives of all deployments. Used by one thread at a time.

    Attributes:
        settings: The settings that all workers share.
        clock: Returns monotonic seconds.
        now: Returns the current time in UTC.
    """

    store: RedriveStore
    outcomes: RedriveOutcomeStore
    deployments: DeploymentStore
    broker: ClusterAdmin
    sources: Sources
    orchestrator: Orchestrator
    flow_locks: FlowLocks
    settings: WorkerSettings
    clock: Callable[[], float]
    now: Callable[[], datetime]
    _prepared: set[str] = field(default_factory=set)
    _worker_sets: dict[str, tuple[Deployment, WorkerSet]] = field(default_factory=dict)
    _lag_checked_at: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Start and stop workers, and store the ends of redrives.

        A failing redrive does not delay the others. Raises Unavailable when a store or the orchestrator is unavailable.
        """
        open_redrives = self.store.running()
        by_deployment = [list(group) for _, group in groupby(open_redrives, key=lambda each: each.deployment_id)]
        running: set[str] = set()
        owners = Counter[str]()
        for redrives in sorted(by_deployment, key=lambda group: (group[0].created_at, group[0].id)):
            running |= self._run_deployment(redrives[0].deployment_id, redrives, owners)
        for worker_set_id in self.orchestrator.worker_set_ids():
            if is_redrive(worker_set_id) and worker_set_id not in running:
                self.orchestrator.stop_workers(worker_set_id)
        self._forget({redrive.id for redrive in open_redrives})

    def _forget(self, open_ids: set[str]) -> None:
        self._prepared &= open_ids
        for remembered in (self._worker_sets, self._lag_checked_at):
            for redrive_id in remembered.keys() - open_ids:
                remembered.pop(redrive_id)

    def _run_deployment(self, deployment_id: str, redrives: Sequence[Redrive], owners: Counter[str]) -> set[str]:
        """Run the redrives of a deployment. Return the worker sets that may run.

        Args:
            deployment_id: The deployment.
            redrives: Its redrives.
            owners: How many workers run for redrives of each owner.
        """
        deployment = next(iter(self.deployments.list_active([deployment_id])), None)
        plan = plan_redrives(deployment, redrives, self._progress)
        for redrive, state in plan.ended:
            self._end(redrive, state)
        if plan.running is None or deployment is None:
            # During a long pause, Kafka may forget the positions. They are then set again.
            self._prepared -= {redrive.id for redrive in redrives}
            return set()
        if owners[deployment.owner] >= MAX_WORKERS_OF_OWNER or owners.total() >= MAX_WORKERS:
            return set()
        owners[deployment.owner] += 1
        try:
            if not self._ensure_worker(deployment, plan.running):
                return set()
            self._let_yield(deployment, plan.running)
        except (DeployFailed, Unavailable) as error:
            log.warning("a redrive waits", redrive=plan.running.id, reason=error.detail)
        return {redrive_worker_set_id(deployment_id, plan.running.number)}

    def _progress(self, redrive: Redrive) -> RedriveProgress:
        return self.outcomes.progress(redrive.deployment_id, redrive.number)

    def _end(self, redrive: Redrive, state: RedriveState) -> None:
        """Store the end of a redrive after its worker has ended."""
        if self.orchestrator.stop_workers(redrive_worker_set_id(redrive.deployment_id, redrive.number)):
            self.store.finish(redrive.id, state, self._progress(redrive).counts, self.now())
            log.info("a redrive has ended", redrive=redrive.id, state=state)

    def _ensure_worker(self, deployment: Deployment, redrive: Redrive) -> bool:
        """Ensure the worker of a redrive, unless the deployment was changed meanwhile.

        Return whether the worker may run. The reconciliation stops the workers of a paused deployment on another
        thread, and the worker of a redrive must not start afterwards.
        """
        if redrive.id not in self._prepared:
            self.broker.ensure(DeploymentResources((), (), tuple(redrive_rules(deployment)), ()))
            group = redrive_group(deployment.id, redrive.number)
            self.broker.commit_start_offsets(group, dead_letter_topic(deployment.config_id), "earliest")
            self._prepared.add(redrive.id)
        wanted = self._worker_set(deployment, redrive)
        with self.flow_locks.lock_of(deployment.config_id):  # the workers are stopped before this, or afterwards
            if not self._is_current(deployment):
                return False
            self.orchestrator.ensure(wanted)
        return True

    def _is_current(self, deployment: Deployment) -> bool:
        """Whether no other state of the deployment has been requested meanwhile."""
        current = next(iter(self.deployments.list_active([deployment.id])), None)
        return current is not None and (current.desired, current.generation) == (
            deployment.desired,
            deployment.generation,
        )

    def _worker_set(self, deployment: Deployment, redrive: Redrive) -> WorkerSet:
        """Return the worker set.

        It is cached until the deployment changes, because its hash is expensive.
        """
        cached = self._worker_sets.get(redrive.id)
        if cached is not None and cached[0] == deployment:
            return cached[1]
        revision = deployment.effective_revision
        if revision.config.unreadable_reason:
            raise DeployFailed(revision.config.unreadable_reason)
        pipeline = worker_set(deployment, revision, self.sources.binding(revision.config.source), self.settings)
        wanted = redrive_worker_set(deployment, pipeline.spec, redrive)
        self._worker_sets[redrive.id] = deployment, wanted
        return wanted

    def _let_yield(self, deployment: Deployment, redrive: Redrive) -> None:
        """Let the redrive yield while the pipeline lags."""
        if self.clock() - self._lag_checked_at.get(redrive.id, float("-inf")) < LAG_CHECK_EVERY_S:
            return
        self._lag_checked_at[redrive.id] = self.clock()
        revision = deployment.effective_revision
        binding = self.sources.binding(revision.config.source)
        if isinstance(binding, KafkaTopic):
            group = worker_group(deployment.id, revision.source_epoch)
            lags: Mapping[str, int] = self.sources.lag(binding.access, [group])
            yields = lags.get(group, 0) > YIELDS_ABOVE_LAG
            self.outcomes.set_yielding(deployment.id, redrive.number, yields=yields)
