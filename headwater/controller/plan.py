"""Plans how one deployment is reconciled, by pure functions of desired and observed state.

The plan is level-triggered: the same state gives the same actions, whatever happened before.

Deploy: topics, users and access rules (ACLs) → start offsets → worker set → ready → stable → resources of previous
revisions removed.
Pause: workers ended → positions read from Kafka → recorded.
Resume: gaps recorded → stored positions committed → recorded → deploy.
Rewind: workers ended → positions moved → recorded → stored positions committed → recorded → workers.
Teardown: workers ended → subscriptions → access rules → users → topics → recorded. The sweeper removes the consumer
groups when they are empty.

A revision whose workers do not become ready, or die on probation, is rolled back to the stable revision. The workers of
the stable revision keep running until the new ones are prepared to take over (see orchestrators/base.py).

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
from headwater.model.deployment import Condition, Deployment, DesiredPhase, Observation, ObservedWorker, Phase, Revision
from headwater.model.worker_spec import WorkerSet

READY_WITHIN_S = 50.0
"""How long the worker of a new revision may take to become ready. Then the rollout fails."""
READY_PER_WORKER_S = 3.0
"""How much longer this may take for each further worker: they may all start on one machine, a few at once."""
STABLE_AFTER_S = 30.0
"""How long a revision is on probation after its workers are ready."""
ON_PROBATION_REASON = (
    f"All workers are ready. The revision is stable when they have been ready for {STABLE_AFTER_S:.0f} s."
)
MAX_DEATHS_IN_ROLLOUT = 3
"""The number of deaths of workers before they are ready with which a rollout fails."""
MAX_DEATHS_ON_PROBATION = 2
"""The number of deaths of workers on probation with which a rollout fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutProgress:
    """The facts about a rollout that this process remembers between two plans.

    A restart of the process loses the progress. Then idempotent actions are repeated.

    Attributes:
        generation: The generation of the deployment.
        revision: The target revision of the rollout.
        not_ready_since: When the workers stopped being ready, or when the rollout began; monotonic seconds.
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
        workers: The worker set; None when the revision can't run.
        problem: Why the revision can't run; empty when it can.
    """

    revision: Revision
    workers: WorkerSet | None
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
        workers: The workers that are members of the consumer group.
        successors: The workers that are being prepared to take over.
        rollout: What this process remembers of the rollout.
        has_ensured_workers: Whether EnsureWorkers has already been carried out in this reconciliation.
        due_sync: What the last comparison of all topics has found to do for this deployment, if anything.
    """

    now: float
    _: KW_ONLY
    workers: Sequence[ObservedWorker] = ()
    successors: Sequence[ObservedWorker] = ()
    rollout: RolloutProgress | None = None
    has_ensured_workers: bool = False
    due_sync: TopicSync | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions to carry out, in this order, and the rollout to remember after them."""

    actions: tuple[Action, ...] = ()
    rollout: RolloutProgress | None = None


def plan(desired: DesiredState, observed: ObservedState) -> Plan:
    """Plan what to do now. A plan without actions means that nothing needs to be done."""
    deployment = desired.deployment
    if deployment.desired is DesiredPhase.ABSENT:
        absent = rollout_observation(deployment, Condition.STABLE, phase=Phase.ABSENT)
        return Plan((StopWorkers(must_have_ended=True), RemoveAll(), StoreObservation(absent)))
    if deployment.unreadable_reason:  # nothing new is started, and the workers keep running
        return Plan(rollout=observed.rollout)
    if deployment.observed_credentials_version != deployment.credentials_version:
        return Plan((ChangeReaderPassword(), StoreObservation(rotation_observation(deployment))), observed.rollout)
    if deployment.desired is DesiredPhase.PAUSED:
        return _plan_pause(desired)
    if deployment.is_reconciled and deployment.phase is Phase.FAILED:
        return Plan(rollout=observed.rollout)
    if _has_pending_rewind(deployment) or _waits_for_positions(deployment, desired.target):
        return _plan_positions(desired)
    if desired.target.workers is None:
        return roll_back_or_fail(desired, desired.target.problem)
    rollout = _rollout_of(desired, observed)
    if rollout is None:
        return _begin_rollout(desired, desired.target.workers, observed)
    if not observed.has_ensured_workers and not _runs(desired.target.workers, observed):
        return Plan((EnsureWorkers(desired.target.workers, is_repeated=True),), rollout)
    return _evaluate_rollout(desired, desired.target.workers, rollout, observed)


def _plan_pause(desired: DesiredState) -> Plan:
    """Stop the workers, and store their positions. A pending rewind is carried out too."""
    deployment = desired.deployment
    if deployment.is_reconciled and deployment.phase is Phase.PAUSED:
        return Plan()
    paused = rollout_observation(deployment, deployment.condition, phase=Phase.PAUSED, reason=deployment.reason)
    if _has_pending_rewind(deployment):
        return Plan((StopWorkers(must_have_ended=True), RewindPositions(desired.target.revision, paused)))
    return Plan((StopWorkers(must_have_ended=True), SavePositions(paused)))


def _plan_positions(desired: DesiredState) -> Plan:
    """Move the positions of a pending rewind, or commit the stored positions.

    The generation is not observed yet: the workers start in a later reconciliation.
    """
    deployment, target = desired.deployment, desired.target.revision
    observation = rollout_observation(deployment, deployment.condition, phase=Phase.PENDING, reason=deployment.reason)
    pending = replace(observation, observed_generation=deployment.observed_generation)
    if _has_pending_rewind(deployment):
        return Plan((StopWorkers(must_have_ended=True), RewindPositions(target, pending)))
    return Plan((StopWorkers(must_have_ended=True), RestorePositions(target, pending)))


def _has_pending_rewind(deployment: Deployment) -> bool:
    return deployment.rewind is not None and deployment.rewind.is_pending


def roll_back_or_fail(desired: DesiredState, reason: str) -> Plan:
    """Roll back to the stable revision, or stop the workers when no stable revision can run.

    No revision can run while positions are stored: the stable revision would start elsewhere.
    """
    deployment, fallback = desired.deployment, desired.fallback
    if fallback is not None and not is_rolled_back(deployment) and not _waits_for_positions(deployment, fallback):
        if fallback.workers is not None:
            reason = f"{reason} Revision {fallback.revision.number} runs instead. Deploy again to retry."
            observation = rollout_observation(deployment, Condition.ROLLED_BACK, reason=reason)
            return Plan((EnsureWorkers(fallback.workers), StoreObservation(observation)))
        reason = f"{reason} Revision {fallback.revision.number} can't run either: {fallback.problem}"
    failed = rollout_observation(deployment, Condition.FAILED, phase=Phase.FAILED, reason=reason)
    return Plan((StopWorkers(must_have_ended=False), StoreObservation(failed)))


def _waits_for_positions(deployment: Deployment, target: RevisionWorkers) -> bool:
    return deployment.positions.must_be_restored(target.revision.source_epoch)


def is_rolled_back(deployment: Deployment) -> bool:
    """Whether the last rollout failed, so that a previous revision runs.

    A pause and a rewind keep the condition, and a deploy replaces it.
    """
    return deployment.condition is Condition.ROLLED_BACK


def fallback_of(deployment: Deployment) -> Revision | None:
    """Return the revision to roll back to."""
    stable = deployment.revision(deployment.rollback_revision)
    return None if stable is None or stable.number == deployment.desired_revision else stable


def target_of(deployment: Deployment) -> Revision:
    """Return the revision whose workers should run."""
    return (fallback_of(deployment) if is_rolled_back(deployment) else None) or deployment.desired_revision_record


def predecessor_of(deployment: Deployment) -> Revision | None:
    """Return the revision that ran before the target, if it is another one."""
    running = deployment.revision(deployment.observed_revision)
    return None if running is None or running.number == target_of(deployment).number else running


def _rollout_of(desired: DesiredState, observed: ObservedState) -> RolloutProgress | None:
    """Return the remembered rollout if its generation and target revision are current."""
    rollout = observed.rollout
    if rollout is None:
        return None
    current = (desired.deployment.generation, desired.target.revision.number)
    return rollout if (rollout.generation, rollout.revision) == current else None


def _begin_rollout(desired: DesiredState, wanted: WorkerSet, observed: ObservedState) -> Plan:
    """Plan the start of a rollout, or its continuation after a restart of this process."""
    actions: list[Action] = []
    if _is_rolling_out(desired.deployment):
        actions.append(PrepareRevision(desired.target.revision))
        predecessor = desired.predecessor
        must_run = desired.deployment.phase is Phase.RUNNING and not observed.workers
        if predecessor is not None and predecessor.workers is not None and must_run:
            # After a restart of the controller, the previous revision runs until the hand-over.
            actions.append(EnsureWorkers(predecessor.workers))
    rollout = RolloutProgress(
        generation=desired.deployment.generation, revision=desired.target.revision.number, not_ready_since=observed.now
    )
    return Plan((*actions, EnsureWorkers(wanted)), rollout)


def _is_rolling_out(deployment: Deployment) -> bool:
    """Whether a deploy is in progress. Workers that start again after a rewind are no rollout."""
    return not deployment.is_reconciled and deployment.condition is Condition.ROLLING_OUT


def _runs(wanted: WorkerSet, observed: ObservedState) -> bool:
    """Whether exactly the wanted workers run, ready or not."""
    workers = observed.workers
    is_complete = len(workers) == wanted.slots and all(worker.spec_hash == wanted.spec_hash for worker in workers)
    return is_complete and not observed.successors


def _evaluate_rollout(
    desired: DesiredState, wanted: WorkerSet, rollout: RolloutProgress, observed: ObservedState
) -> Plan:
    """Plan the next step of a rollout whose wanted workers have been started."""
    target_workers = [w for w in (*observed.workers, *observed.successors) if w.spec_hash == wanted.spec_hash]
    if _can_still_fail(desired) and (reason := _crash_reason(desired, rollout, target_workers)):
        return roll_back_or_fail(desired, reason)
    sync = _topic_sync(desired, rollout, observed)
    if sync is not None:
        rollout = replace(rollout, has_synced_topics=True)
    workers = observed.workers
    if len(workers) == wanted.slots and all(w.is_ready and w.spec_hash == wanted.spec_hash for w in workers):
        next_plan = _plan_when_ready(desired, rollout, observed)
    else:
        next_plan = _plan_when_not_ready(desired, rollout, observed.now, target_workers)
    if sync is None:
        return next_plan
    return Plan((SyncTopics(desired.target.revision, sync), *next_plan.actions), next_plan.rollout)


def _topic_sync(desired: DesiredState, rollout: RolloutProgress, observed: ObservedState) -> TopicSync | None:
    """Return what has to be brought up to date in the topics of a revision that is reconciled."""
    if not desired.deployment.is_reconciled:
        return None
    return observed.due_sync if rollout.has_synced_topics else TopicSync.PARTITIONS_AND_SETTINGS


def _plan_when_ready(desired: DesiredState, rollout: RolloutProgress, observed: ObservedState) -> Plan:
    """Plan the next step of a rollout whose workers are all ready."""
    deployment, number = desired.deployment, desired.target.revision.number
    deaths = _deaths(observed.workers)
    if rollout.startup_deaths is None:
        rollout = replace(rollout, startup_deaths=deaths)
    if rollout.ready_since is None or rollout.deaths_when_ready != deaths:
        # A worker may have died and become ready again between two plans.
        rollout = replace(rollout, ready_since=observed.now, deaths_when_ready=deaths)
    ready_for_s = observed.now - (rollout.ready_since or 0.0)
    if _is_rolling_out(deployment):
        observation = rollout_observation(
            deployment, Condition.ROLLING_OUT, revision=number, reason=ON_PROBATION_REASON
        )
        return Plan((ChangeTopicSettings(desired.target.revision), StoreObservation(observation)), rollout)
    same_condition = rollout_observation(deployment, deployment.condition, revision=number, reason=deployment.reason)
    if deployment.observed_revision != number or not deployment.is_reconciled:
        # After a rollback, the target is the stable revision, and the database still has the failed one. After a
        # rewind, the workers of the same revision are ready again.
        observation = same_condition
    elif deployment.condition is Condition.ROLLING_OUT and ready_for_s >= STABLE_AFTER_S:
        observation = rollout_observation(deployment, Condition.STABLE, revision=number)
    elif deployment.condition is Condition.STABLE and deployment.previous_revisions:
        # The database records the revision as stable, since an earlier reconciliation has stored that. So no rollback
        # can need the previous revisions.
        without_previous = replace(same_condition, previous_removed=True)
        return Plan((RemovePrevious(desired.target.revision), StoreObservation(without_previous)), rollout)
    else:
        return Plan((), rollout)
    return Plan((StoreObservation(observation),), rollout)


def _plan_when_not_ready(
    desired: DesiredState, rollout: RolloutProgress, now: float, workers: Sequence[ObservedWorker]
) -> Plan:
    """Plan nothing while the workers may still become ready, otherwise a rollback."""
    if rollout.ready_since is not None:
        rollout = replace(rollout, ready_since=None, not_ready_since=now)
    # Workers that wait for a store or broker are not at fault, so the rollout continues.
    slots = desired.target.workers.slots if desired.target.workers is not None else 1
    allowed_s = READY_WITHIN_S + READY_PER_WORKER_S * (slots - 1)
    is_late = now - rollout.not_ready_since > allowed_s and not any(worker.waits for worker in workers)
    if not is_late or not _can_still_fail(desired):
        return Plan((), rollout)
    sentence = f"The workers of revision {rollout.revision} were not ready within {allowed_s:.0f} s."
    return roll_back_or_fail(desired, f"{sentence} {_reasons(workers)}")


def _can_still_fail(desired: DesiredState) -> bool:
    """Whether the rollout may still fail.

    A rollout may fail before it is reconciled, and then on probation when there is a revision to roll back to. Workers
    that start again after a rewind are no rollout: they are restarted until they are ready.
    """
    deployment = desired.deployment
    return _is_rolling_out(deployment) or (_is_on_probation(deployment) and desired.fallback is not None)


def _is_on_probation(deployment: Deployment) -> bool:
    """Whether the newest revision has run with ready workers, but is not stable yet."""
    return deployment.is_reconciled and deployment.condition is Condition.ROLLING_OUT


def _crash_reason(desired: DesiredState, rollout: RolloutProgress, workers: Sequence[ObservedWorker]) -> str:
    """Return the reason when the workers of a revision die repeatedly; empty when they do not."""
    if _is_on_probation(desired.deployment):
        when, limit = f"within {STABLE_AFTER_S:.0f} s of being ready", MAX_DEATHS_ON_PROBATION
    else:
        when, limit = "before they are ready", MAX_DEATHS_IN_ROLLOUT
    if _deaths(workers) - (rollout.startup_deaths or 0) < limit:
        return ""
    return f"The workers of revision {rollout.revision} keep exiting {when}. {_reasons(workers)}"


def _reasons(workers: Sequence[ObservedWorker]) -> str:
    reasons = "; ".join(f"{worker.name}: {worker.reason}" for worker in workers if worker.reason)
    return reasons or "No worker has reported a reason."


def _deaths(workers: Sequence[ObservedWorker]) -> int:
    return sum(worker.deaths for worker in workers)


def rollout_observation(
    deployment: Deployment,
    condition: Condition,
    *,
    revision: int | None = None,
    phase: Phase = Phase.RUNNING,
    reason: str = "",
) -> Observation:
    """Return the observed state to store when the deployment's generation is reconciled.

    Args:
        revision: The revision that runs; None when it is still the stored one.
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
