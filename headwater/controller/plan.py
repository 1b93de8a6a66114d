"""Plans how one deployment is reconciled, by pure functions of desired and observed state.

The plan is level-triggered: the same state gives the same actions, whatever happened before.

A rollout is a deploy whose revision is not stable yet (`Condition.ROLLING_OUT`). When its workers are ready, the
generation is recorded as reconciled, and the revision is on probation. A generation is reconciled when the controller
has finished with it, successfully or not.

Deploy: topics, users and ACLs → start offsets → worker set → ready → stable → resources of previous
revisions removed.
Pause: workers ended → positions read from Kafka → stored in the database.
Resume: gaps stored in the database → stored positions committed to Kafka → removed from the database → deploy.
Rewind: workers ended → positions moved → stored in the database → committed to Kafka → removed from the database →
workers started.
Teardown: workers ended → subscriptions, ACLs, users and topics removed → phase stored. The sweeper removes the consumer
groups when they are empty.

A revision whose workers do not become ready, or die on probation, is rolled back to the fallback: the last stable
revision (see Deployment.rollback_revision). The workers of the fallback keep running until the new workers are prepared
to take over (see orchestrators/base.py).

While positions are stored, no worker may run: the committed offsets may be missing, or not moved yet. So stored
positions are committed, and their removal is recorded, before the first worker starts. An interrupted resume repeats
that, and never moves the positions of workers that run.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from headwater.controller.actions import (
    Action,
    ChangeReaderPassword,
    ChangeTopicSettings,
    EnsureWorkers,
    PrepareRevision,
    RemoveAll,
    RemovePrevious,
    RestorePositions,
    RewindPositions,
    SavePositions,
    StopWorkers,
    StoreObservation,
    SyncTopics,
    TopicSync,
)
from headwater.model.deployment import (
    Condition,
    DeployedRevision,
    Deployment,
    DesiredPhase,
    Observation,
    ObservedWorker,
    Phase,
)
from headwater.model.worker_spec import WorkerSet

READY_WITHIN_S = 50.0
"""How long the first worker of a rollout may take to become ready, before the rollout fails."""
READY_PER_WORKER_S = 3.0
"""How much longer each further worker may take: they may all start on one machine, a few at once."""
STABLE_AFTER_S = 30.0
"""How long a revision is on probation after its workers are ready."""
ON_PROBATION_REASON = (
    f"All workers are ready. The revision is stable when they have been ready for {STABLE_AFTER_S:.0f} s."
)
MAX_DEATHS_BEFORE_READY = 3
"""A rollout fails when its workers have died this many times before they are ready."""
MAX_DEATHS_ON_PROBATION = 2
"""A rollout fails when its workers have died this many times on probation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProgress:
    """The facts about a deployment's workers that are remembered between two plans.

    They are kept for all deployments with workers, also for stable ones. A restart of the process loses them. Then
    idempotent actions are repeated.

    Attributes:
        generation: The generation of the deployment.
        revision: The target revision of the deployment.
        not_ready_since: When the workers stopped being ready, or when they were first started; monotonic seconds.
        ready_since: When the workers became ready, in monotonic seconds; None while they are not ready.
        startup_deaths: The deaths of the workers before they were ready for the first time; None until then.
        deaths_when_ready: The deaths of the workers when they were last ready.
        has_synced_topics: Whether SyncTopics has been carried out since the generation was reconciled.
    """

    generation: int
    revision: int
    not_ready_since: float
    ready_since: float | None = None
    startup_deaths: int | None = None
    deaths_when_ready: int = 0
    has_synced_topics: bool = False


@dataclass(frozen=True, slots=True)
class RevisionWorkers:
    """A revision and its worker set.

    Attributes:
        revision: The revision.
        worker_set: Its workers; None when the revision can't run.
        problem: Why the revision can't run; empty when it can.
    """

    revision: DeployedRevision
    worker_set: WorkerSet | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DesiredState:
    """A stored deployment, and the revisions that may run.

    Attributes:
        deployment: The deployment.
        target: The revision whose workers should run.
        fallback: The revision to roll back to, if there is one.
        predecessor: The revision that ran before the target, if it is another one.
    """

    deployment: Deployment
    target: RevisionWorkers
    fallback: RevisionWorkers | None = None
    predecessor: RevisionWorkers | None = None


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observed state of a deployment.

    Attributes:
        now: The time of the observation, in monotonic seconds.
        workers: The workers that are or should be members of the consumer group; some may have no process now.
        successors: The workers that are being prepared to take over.
        progress: What this process remembers about the workers; None when it has not started them.
        is_second_plan: Whether a plan of this reconciliation has already been carried out. The second one evaluates the
        workers of the target and does not start them again; it may roll back.
        due_sync: What the last comparison of all topics has found to do for this deployment, if anything.
    """

    now: float
    _: KW_ONLY
    workers: Sequence[ObservedWorker] = ()
    successors: Sequence[ObservedWorker] = ()
    progress: WorkerProgress | None = None
    is_second_plan: bool = False
    due_sync: TopicSync | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions to carry out, in this order, and the progress to remember after them."""

    actions: tuple[Action, ...] = ()
    progress: WorkerProgress | None = None


def plan(desired: DesiredState, observed: ObservedState) -> Plan:
    """Plan what to do now. A plan without actions means that nothing needs to be done."""
    deployment = desired.deployment
    if deployment.desired is DesiredPhase.ABSENT:
        absent = reconciled_observation(deployment, Condition.STABLE, phase=Phase.ABSENT)
        return Plan((StopWorkers(must_have_ended=True), RemoveAll(), StoreObservation(absent)))
    if deployment.unreadable_reason:  # nothing new is started, and the workers keep running
        return Plan(progress=observed.progress)
    if deployment.observed_credentials_version != deployment.credentials_version:
        return Plan((ChangeReaderPassword(), StoreObservation(rotation_observation(deployment))), observed.progress)
    if deployment.desired is DesiredPhase.PAUSED:
        return _plan_pause(desired)
    if deployment.is_reconciled and deployment.phase is Phase.FAILED:
        return Plan(progress=observed.progress)
    if _has_pending_rewind(deployment) or _waits_for_positions(deployment, desired.target):
        return _plan_positions(desired)
    if desired.target.worker_set is None:
        return roll_back_or_fail(desired, desired.target.problem)
    progress = _current_progress(desired, observed)
    if progress is None:
        return _start_workers(desired, desired.target.worker_set, observed)
    if not observed.is_second_plan and not _runs(desired.target.worker_set, observed):
        return Plan((EnsureWorkers(desired.target.worker_set, is_repeated=True),), progress)
    return _evaluate_workers(desired, desired.target.worker_set, progress, observed)


def _plan_pause(desired: DesiredState) -> Plan:
    """Stop the workers, and store their positions. A pending rewind is carried out too."""
    deployment = desired.deployment
    if deployment.is_reconciled and deployment.phase is Phase.PAUSED:
        return Plan()
    paused = reconciled_observation(deployment, deployment.condition, phase=Phase.PAUSED, reason=deployment.reason)
    if _has_pending_rewind(deployment):
        return Plan((StopWorkers(must_have_ended=True), RewindPositions(desired.target.revision, paused)))
    return Plan((StopWorkers(must_have_ended=True), SavePositions(paused)))


def _plan_positions(desired: DesiredState) -> Plan:
    """Move the positions of a pending rewind, or commit the stored positions.

    The generation is not observed yet: the workers start in a later reconciliation.
    """
    deployment, target = desired.deployment, desired.target.revision
    observation = reconciled_observation(
        deployment, deployment.condition, phase=Phase.PENDING, reason=deployment.reason
    )
    pending = replace(observation, observed_generation=deployment.observed_generation)
    if _has_pending_rewind(deployment):
        return Plan((StopWorkers(must_have_ended=True), RewindPositions(target, pending)))
    return Plan((StopWorkers(must_have_ended=True), RestorePositions(target, pending)))


def _has_pending_rewind(deployment: Deployment) -> bool:
    return deployment.rewind is not None and deployment.rewind.is_pending


def roll_back_or_fail(desired: DesiredState, reason: str) -> Plan:
    """Roll back to the fallback, or stop the workers when there is none that can run.

    No revision can run while positions are stored: the fallback would start at other offsets than these.
    """
    deployment, fallback = desired.deployment, desired.fallback
    if fallback is not None and not is_rolled_back(deployment) and not _waits_for_positions(deployment, fallback):
        if fallback.worker_set is not None:
            reason = f"{reason} Revision {fallback.revision.number} runs instead. Deploy again to retry."
            observation = reconciled_observation(deployment, Condition.ROLLED_BACK, reason=reason)
            return Plan((EnsureWorkers(fallback.worker_set), StoreObservation(observation)))
        reason = f"{reason} Revision {fallback.revision.number} can't run either: {fallback.problem}"
    failed = reconciled_observation(deployment, Condition.FAILED, phase=Phase.FAILED, reason=reason)
    return Plan((StopWorkers(must_have_ended=False), StoreObservation(failed)))


def _waits_for_positions(deployment: Deployment, target: RevisionWorkers) -> bool:
    return deployment.positions.needs_restore_before(target.revision.source_epoch)


def is_rolled_back(deployment: Deployment) -> bool:
    """Whether the last rollout failed, so that a previous revision runs.

    A pause and a rewind keep the condition, and a deploy replaces it.
    """
    return deployment.condition is Condition.ROLLED_BACK


def fallback_of(deployment: Deployment) -> DeployedRevision | None:
    """Return the revision to roll back to."""
    fallback = deployment.revision(deployment.rollback_revision)
    return None if fallback is None or fallback.number == deployment.desired_revision else fallback


def target_of(deployment: Deployment) -> DeployedRevision:
    """Return the revision whose workers should run."""
    return (fallback_of(deployment) if is_rolled_back(deployment) else None) or deployment.desired_revision_record


def predecessor_of(deployment: Deployment) -> DeployedRevision | None:
    """Return the revision that ran before the target, if it is another one."""
    running = deployment.revision(deployment.observed_revision)
    return None if running is None or running.number == target_of(deployment).number else running


def _current_progress(desired: DesiredState, observed: ObservedState) -> WorkerProgress | None:
    """Return the remembered progress if its generation and target revision are current."""
    progress = observed.progress
    if progress is None:
        return None
    current = (desired.deployment.generation, desired.target.revision.number)
    return progress if (progress.generation, progress.revision) == current else None


def _start_workers(desired: DesiredState, worker_set: WorkerSet, observed: ObservedState) -> Plan:
    """Plan the start of the workers, or their continuation after a restart of this process."""
    actions: list[Action] = []
    if _is_deploying(desired.deployment):
        actions.append(PrepareRevision(desired.target.revision))
        predecessor = desired.predecessor
        must_run = desired.deployment.phase is Phase.RUNNING and not observed.workers
        if predecessor is not None and predecessor.worker_set is not None and must_run:
            # After a restart of the controller, the previous revision runs until the hand-over.
            actions.append(EnsureWorkers(predecessor.worker_set))
    progress = WorkerProgress(
        generation=desired.deployment.generation, revision=desired.target.revision.number, not_ready_since=observed.now
    )
    return Plan((*actions, EnsureWorkers(worker_set)), progress)


def _is_deploying(deployment: Deployment) -> bool:
    """Whether a deploy is in progress whose workers are not ready yet.

    Workers that start again after a rewind are no deploy.
    """
    return not deployment.is_reconciled and deployment.condition is Condition.ROLLING_OUT


def _runs(worker_set: WorkerSet, observed: ObservedState) -> bool:
    """Whether the orchestrator has exactly the workers of this set, running or not."""
    workers = observed.workers
    is_complete = len(workers) == worker_set.slots and all(w.spec_hash == worker_set.spec_hash for w in workers)
    return is_complete and not observed.successors


def _evaluate_workers(
    desired: DesiredState, worker_set: WorkerSet, progress: WorkerProgress, observed: ObservedState
) -> Plan:
    """Plan the next step for workers that have been started."""
    target_workers = [w for w in (*observed.workers, *observed.successors) if w.spec_hash == worker_set.spec_hash]
    if _can_still_fail(desired) and (reason := _crash_reason(desired, progress, target_workers)):
        return roll_back_or_fail(desired, reason)
    sync = _topic_sync(desired, progress, observed)
    if sync is not None:
        progress = replace(progress, has_synced_topics=True)
    workers = observed.workers
    if len(workers) == worker_set.slots and all(w.is_ready and w.spec_hash == worker_set.spec_hash for w in workers):
        next_plan = _plan_when_ready(desired, progress, observed)
    else:
        next_plan = _plan_when_not_ready(desired, progress, observed.now, target_workers)
    if sync is None:
        return next_plan
    return Plan((SyncTopics(desired.target.revision, sync), *next_plan.actions), next_plan.progress)


def _topic_sync(desired: DesiredState, progress: WorkerProgress, observed: ObservedState) -> TopicSync | None:
    """Return what has to be brought up to date in the topics of a revision that is reconciled."""
    if not desired.deployment.is_reconciled:
        return None
    return observed.due_sync if progress.has_synced_topics else TopicSync.PARTITIONS_AND_SETTINGS


def _plan_when_ready(desired: DesiredState, progress: WorkerProgress, observed: ObservedState) -> Plan:
    """Plan the next step when all workers are ready."""
    deployment, number = desired.deployment, desired.target.revision.number
    deaths = _deaths(observed.workers)
    if progress.startup_deaths is None:
        progress = replace(progress, startup_deaths=deaths)
    if progress.ready_since is None or progress.deaths_when_ready != deaths:
        # A worker may have died and become ready again between two plans.
        progress = replace(progress, ready_since=observed.now, deaths_when_ready=deaths)
    ready_for_s = observed.now - (progress.ready_since or 0.0)
    if _is_deploying(deployment):
        observation = reconciled_observation(
            deployment, Condition.ROLLING_OUT, revision=number, reason=ON_PROBATION_REASON
        )
        return Plan((ChangeTopicSettings(desired.target.revision), StoreObservation(observation)), progress)
    same_condition = reconciled_observation(deployment, deployment.condition, revision=number, reason=deployment.reason)
    if deployment.observed_revision != number or not deployment.is_reconciled:
        # After a rollback, the target is the stable revision, and the database still has the failed one. After a
        # rewind, the workers of the same revision are ready again.
        observation = same_condition
    elif deployment.condition is Condition.ROLLING_OUT and ready_for_s >= STABLE_AFTER_S:
        observation = reconciled_observation(deployment, Condition.STABLE, revision=number)
    elif deployment.condition is Condition.STABLE and deployment.previous_revisions:
        # The database records the revision as stable, since an earlier reconciliation has stored that. So no rollback
        # can need the previous revisions.
        without_previous = replace(same_condition, previous_removed=True)
        return Plan((RemovePrevious(desired.target.revision), StoreObservation(without_previous)), progress)
    else:
        return Plan((), progress)
    return Plan((StoreObservation(observation),), progress)


def _plan_when_not_ready(
    desired: DesiredState, progress: WorkerProgress, now: float, workers: Sequence[ObservedWorker]
) -> Plan:
    """Plan nothing while the workers may still become ready, otherwise a rollback."""
    if progress.ready_since is not None:
        progress = replace(progress, ready_since=None, not_ready_since=now)
    # Workers that wait for a store or for Kafka are not at fault, so the rollout continues.
    slots = desired.target.worker_set.slots if desired.target.worker_set is not None else 1
    allowed_s = READY_WITHIN_S + READY_PER_WORKER_S * (slots - 1)
    is_late = now - progress.not_ready_since > allowed_s and not any(worker.waits for worker in workers)
    if not is_late or not _can_still_fail(desired):
        return Plan((), progress)
    sentence = f"The workers of revision {progress.revision} were not ready within {allowed_s:.0f} s."
    return roll_back_or_fail(desired, f"{sentence} {_reasons(workers)}")


def _can_still_fail(desired: DesiredState) -> bool:
    """Whether the rollout may still fail.

    A rollout may fail before it is reconciled, and on probation if there is a revision to roll back to. Workers that
    start again after a rewind belong to no rollout: they are restarted until they are ready.
    """
    deployment = desired.deployment
    return _is_deploying(deployment) or (_is_on_probation(deployment) and desired.fallback is not None)


def _is_on_probation(deployment: Deployment) -> bool:
    """Whether the newest revision has run with ready workers, but is not stable yet."""
    return deployment.is_reconciled and deployment.condition is Condition.ROLLING_OUT


def _crash_reason(desired: DesiredState, progress: WorkerProgress, workers: Sequence[ObservedWorker]) -> str:
    """Return the reason when the workers of a revision die repeatedly; empty when they do not."""
    if _is_on_probation(desired.deployment):
        when, limit = f"within {STABLE_AFTER_S:.0f} s of being ready", MAX_DEATHS_ON_PROBATION
    else:
        when, limit = "before they are ready", MAX_DEATHS_BEFORE_READY
    if _deaths(workers) - (progress.startup_deaths or 0) < limit:
        return ""
    return f"The workers of revision {progress.revision} keep exiting {when}. {_reasons(workers)}"


def _reasons(workers: Sequence[ObservedWorker]) -> str:
    reasons = "; ".join(f"{worker.name}: {worker.reason}" for worker in workers if worker.reason)
    return reasons or "No worker has reported a reason."


def _deaths(workers: Sequence[ObservedWorker]) -> int:
    return sum(worker.deaths for worker in workers)


def reconciled_observation(
    deployment: Deployment,
    condition: Condition,
    *,
    revision: int | None = None,
    phase: Phase = Phase.RUNNING,
    reason: str = "",
) -> Observation:
    """Return the observed state to store when the deployment's generation is reconciled.

    Args:
        revision: The revision that runs; None keeps the stored observed_revision.
    """
    return Observation(
        deployment.id,
        phase,
        deployment.observed_revision if revision is None else revision,
        deployment.generation,
        condition,
        reason,
        deployment.observed_credentials_version,
    )


def rotation_observation(deployment: Deployment) -> Observation:
    """Return the observed state to store when the readers' password is changed.

    Only the version of the credentials differs from the stored state.
    """
    return Observation(
        deployment.id,
        deployment.phase,
        deployment.observed_revision,
        deployment.observed_generation,
        deployment.condition,
        deployment.reason,
        deployment.credentials_version,
    )
