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
    redrive_acls,
    redrive_worker_set,
    worker_set,
)
from headwater.controller.deployment_sources import Sources
from headwater.controller.flow_locks import FlowLocks
from headwater.errors import DeployFailed, Unavailable
from headwater.model.binding import KafkaTopic
from headwater.model.deployment import (
    Deployment,
    DeploymentVersion,
    DesiredPhase,
    Phase,
    dead_letter_topic,
    worker_group,
)
from headwater.model.redrive import (
    OpenRedrive,
    RedriveProgress,
    RedriveSpec,
    RedriveState,
    is_redrive,
    redrive_group,
    redrive_worker_set_id,
)
from headwater.model.worker_spec import WorkerSet
from headwater.orchestrators.base import Orchestrator
from headwater.stores.protocols.deployments import DeploymentStore
from headwater.stores.protocols.metrics import MetricStore
from headwater.stores.protocols.redrives import RedriveOutcomeStore, RedriveStore

log = structlog.get_logger(__name__)

THROTTLED_ABOVE_LAG = 1_000
"""A redrive is throttled while the lag of its pipeline exceeds this, so that the pipeline is not slowed down."""
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

    ended: Sequence[tuple[OpenRedrive, RedriveState]] = ()
    running: OpenRedrive | None = None


def plan_redrives(
    deployment: Deployment | None,
    redrives: Sequence[OpenRedrive],
    progress: Callable[[OpenRedrive], RedriveProgress],
    *,
    may_run: bool = True,
) -> RedrivePlan:
    """Plan the redrives of a deployment that have not ended.

    Args:
        deployment: The deployment; None when it has ended.
        redrives: The redrives in the order of their numbers.
        progress: Returns how far a redrive has come.
        may_run: Whether the limits (MAX_WORKERS, MAX_WORKERS_OF_OWNER) allow the worker of one more redrive.
    """
    if deployment is None or deployment.desired is DesiredPhase.ABSENT:
        return RedrivePlan([(redrive, "stopped") for redrive in redrives])
    if deployment.desired is not DesiredPhase.RUNNING or deployment.phase is not Phase.RUNNING:
        return RedrivePlan()
    if deployment.unreadable_reason or not may_run:
        return RedrivePlan()
    first, *others = redrives
    if not progress(first).has_finished:
        return RedrivePlan(running=first)
    return RedrivePlan([(first, "done")], others[0] if others else None)


@dataclass(slots=True, kw_only=True)
class RedriveRunner:
    """Runs the redrives of all deployments. Used by one thread at a time.

    Attributes:
        settings: The settings that all workers share.
        clock: Returns monotonic seconds.
        now: Returns the current time in UTC.
    """

    store: RedriveStore
    outcomes: RedriveOutcomeStore
    metrics: MetricStore
    deployments: DeploymentStore
    own_cluster: ClusterAdmin
    sources: Sources
    orchestrator: Orchestrator
    flow_locks: FlowLocks
    settings: WorkerSettings
    clock: Callable[[], float]
    now: Callable[[], datetime]
    _deployments: dict[str, tuple[DeploymentVersion, Deployment]] = field(default_factory=dict)
    """The deployments with open redrives, as they were read last."""
    _prepared: set[str] = field(default_factory=set)
    _worker_sets: dict[str, tuple[Deployment, WorkerSet]] = field(default_factory=dict)
    _lag_checked_at: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Start and stop workers, and store the ends of redrives.

        A failing redrive does not delay the others. Raises Unavailable when a store or the orchestrator is unavailable.
        """
        open_redrives = self.store.list_open()
        by_deployment = [list(group) for _, group in groupby(open_redrives, key=lambda each: each.deployment_id)]
        deployments = self._read_deployments({redrive.deployment_id for redrive in open_redrives})
        running: set[str] = set()
        workers_by_owner = Counter[str]()
        for redrives in sorted(by_deployment, key=lambda group: (group[0].created_at, group[0].id)):
            running |= self._run_deployment(deployments.get(redrives[0].deployment_id), redrives, workers_by_owner)
        for worker_set_id in self.orchestrator.worker_set_ids():
            if is_redrive(worker_set_id) and worker_set_id not in running:
                self.orchestrator.stop_workers(worker_set_id)
        self._forget({redrive.id for redrive in open_redrives})

    def _read_deployments(self, deployment_ids: set[str]) -> Mapping[str, Deployment]:
        """Return the deployments that are active, by id.

        A deployment with large scripts takes long to read, so it is only read when its version has changed.
        """
        versions = {version.id: version for version in self.deployments.active_versions(deployment_ids)}
        known = {id_: known for id_, known in self._deployments.items() if versions.get(id_) == known[0]}
        changed = self.deployments.list_active(versions.keys() - known.keys())
        self._deployments = known | {each.id: (versions[each.id], each) for each in changed}
        return {id_: deployment for id_, (_, deployment) in self._deployments.items()}

    def _forget(self, open_ids: set[str]) -> None:
        self._prepared &= open_ids
        for remembered in (self._worker_sets, self._lag_checked_at):
            for redrive_id in remembered.keys() - open_ids:
                remembered.pop(redrive_id)

    def _run_deployment(
        self, deployment: Deployment | None, redrives: Sequence[OpenRedrive], workers_by_owner: Counter[str]
    ) -> set[str]:
        """Run the redrives of a deployment. Return the worker sets that may run.

        Args:
            deployment: The deployment; None when it has ended.
            redrives: Its redrives.
            workers_by_owner: How many workers run for redrives of each owner.
        """
        may_run = (
            deployment is not None
            and workers_by_owner[deployment.owner] < MAX_WORKERS_OF_OWNER
            and workers_by_owner.total() < MAX_WORKERS
        )
        plan = plan_redrives(deployment, redrives, self._progress, may_run=may_run)
        for redrive, state in plan.ended:
            self._end(redrive, state)
        if plan.running is None or deployment is None:
            # During a long pause, Kafka may forget the positions. They are then set again.
            self._prepared -= {redrive.id for redrive in redrives}
            return set()
        workers_by_owner[deployment.owner] += 1
        try:
            if not self._ensure_worker(deployment, plan.running):
                return set()
            self._throttle(deployment, plan.running)
        except (DeployFailed, Unavailable) as error:
            log.warning("a redrive waits, or its rate is not updated", redrive=plan.running.id, reason=error.detail)
        return {redrive_worker_set_id(deployment.id, plan.running.number)}

    def _progress(self, redrive: OpenRedrive) -> RedriveProgress:
        return self.outcomes.progress(redrive.deployment_id, redrive.number)

    def _end(self, redrive: OpenRedrive, state: RedriveState) -> None:
        """Store the end of a redrive after its worker has ended."""
        if self.orchestrator.stop_workers(redrive_worker_set_id(redrive.deployment_id, redrive.number)):
            self.metrics.drop_group(redrive.deployment_id, redrive_group(redrive.deployment_id, redrive.number))
            self.store.finish(redrive.id, state, self._progress(redrive).counts, self.now())
            self.outcomes.expire_progress(redrive.deployment_id, redrive.number)
            log.info("a redrive has ended", redrive=redrive.id, state=state)

    def _ensure_worker(self, deployment: Deployment, redrive: OpenRedrive) -> bool:
        """Ensure the worker of a redrive, unless the deployment was changed meanwhile.

        Return whether the worker may run. The reconciliation stops the workers of a paused deployment on another
        thread, and the worker of a redrive must not start afterwards.
        """
        if redrive.id not in self._prepared:
            self.own_cluster.ensure(DeploymentResources((), (), tuple(redrive_acls(deployment))))
            group = redrive_group(deployment.id, redrive.number)
            self.own_cluster.commit_start_offsets(group, dead_letter_topic(deployment.config_id), "earliest")
            self._prepared.add(redrive.id)
        wanted = self._worker_set(deployment, redrive)
        # A pause stops the workers under the same lock. Either it has changed the deployment already, which the next
        # line finds out, or it stops this worker too.
        with self.flow_locks.lock_of(deployment.config_id):
            if not self._is_current(deployment):
                return False
            self.orchestrator.ensure(wanted)
        return True

    def _is_current(self, deployment: Deployment) -> bool:
        """Whether no other state of the deployment has been requested meanwhile."""
        requested = [(each.desired, each.generation) for each in self.deployments.active_versions([deployment.id])]
        return requested == [(deployment.desired, deployment.generation)]

    def _worker_set(self, deployment: Deployment, redrive: OpenRedrive) -> WorkerSet:
        """Return the worker set.

        It is cached until the deployment changes, because its selection and its hash are expensive.
        """
        cached = self._worker_sets.get(redrive.id)
        if cached is not None and cached[0] == deployment:
            return cached[1]
        revision = deployment.effective_revision
        if revision.config.unreadable_reason:
            raise DeployFailed(revision.config.unreadable_reason)
        pipeline = worker_set(deployment, revision, self.sources.binding(revision.config.source), self.settings)
        selection = self.store.open_selections(deployment.id)[redrive.id]
        spec = RedriveSpec(id=redrive.id, number=redrive.number, selection=selection)
        wanted = redrive_worker_set(deployment, pipeline.spec, spec)
        self._worker_sets[redrive.id] = deployment, wanted
        return wanted

    def _throttle(self, deployment: Deployment, redrive: OpenRedrive) -> None:
        """Throttle the redrive while the pipeline lags."""
        if self.clock() - self._lag_checked_at.get(redrive.id, float("-inf")) < LAG_CHECK_EVERY_S:
            return
        self._lag_checked_at[redrive.id] = self.clock()
        revision = deployment.effective_revision
        binding = self.sources.binding(revision.config.source)
        if isinstance(binding, KafkaTopic):
            group = worker_group(deployment.id, revision.source_epoch)
            lags: Mapping[str, int] = self.sources.lag(binding.access, [group])
            is_throttled = lags.get(group, 0) > THROTTLED_ABOVE_LAG
            self.outcomes.set_throttled(deployment.id, redrive.number, is_throttled=is_throttled)
