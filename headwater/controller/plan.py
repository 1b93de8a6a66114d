"""Decides what a round over one deployment does: pure functions of what is desired and what was observed.

Level-triggered: the same state gives the same actions, whatever happened before.
Deploy: topics, users and rules → first positions → worker set → ready → stable → resources of old revisions removed.
Teardown: workers ended → subscriptions → rules → users → topics → recorded; consumer groups go once they are empty.

A revision that does not get ready, or dies while it is on probation, goes back to the stable one. Until its workers
are prepared to take over, those of the stable one run on (see orchestrators/base.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.controller.actions import (
    Action,
    ChangeReaderPassword,
    ChangeTopicSettings,
    EnsureWorkers,
    MatchTopics,
    PrepareRevision,
    RecordObserved,
    RemoveEverything,
    RemovePrevious,
    StopWorkers,
)
from headwater.model.deployment import Condition, Deployment, Desired, Observed, Phase, Revision, WorkerStatus
from headwater.model.worker import WorkerSet

READY_WITHIN_S = 50.0
STABLE_AFTER_S = 30.0
"""How long a revision is on probation after its workers are ready."""
ON_PROBATION = f"All workers are ready. The revision is stable when they have been so for {STABLE_AFTER_S:.0f} s."
PARTITIONS_EVERY_S = 60.0
"""How often the partitions of a running deployment's source are looked at."""
MAX_DEATHS_IN_ROLLOUT = 3
MAX_DEATHS_ON_PROBATION = 2


@dataclass(frozen=True, slots=True)
class Rollout:
    """What this process remembers of a rollout between rounds; losing it only repeats idempotent actions.

    Attributes:
        generation, revision: The rollout that this is about.
        not_ready_since, ready_since: Monotonic seconds; the latter is None while the workers are not ready.
        startup_deaths: Deaths of its workers before they were ready for the first time; None until then.
        deaths: Deaths when the workers were ready last.
        compared_at: When the partitions of outputs and source were compared last, in monotonic seconds.
    """

    generation: int
    revision: int
    not_ready_since: float
    ready_since: float | None = None
    startup_deaths: int | None = None
    deaths: int = 0
    compared_at: float = float("-inf")


@dataclass(frozen=True, slots=True)
class RevisionWorkers:
    """A revision and its workers; without workers, `problem` says why it can't have any."""

    revision: Revision
    workers: WorkerSet | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DesiredState:
    """A deployment as it is stored, and the revisions that a round may run.

    Attributes:
        target: The revision whose workers should run.
        fallback: What a failed rollout goes back to, if there is anything.
        predecessor: The revision that ran before the target, if it is another one.
    """

    deployment: Deployment
    target: RevisionWorkers
    fallback: RevisionWorkers | None = None
    predecessor: RevisionWorkers | None = None


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observed state of a deployment in a round.

    Attributes:
        now: Monotonic seconds.
        workers: The workers that take part in the group.
        successors: The workers that prepare to take over.
        rollout: What this process remembers of the rollout.
        ensured: Whether the target's workers were asked for in this round.
    """

    now: float
    workers: Sequence[WorkerStatus] = ()
    successors: Sequence[WorkerStatus] = ()
    rollout: Rollout | None = None
    ensured: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions of a round in their order, and the rollout to remember after them."""

    actions: tuple[Action, ...] = ()
    rollout: Rollout | None = None


def plan(desired: DesiredState, observed: ObservedState) -> Plan:
    """Decide what to do now. A plan without actions means that nothing needs to be done."""
    deployment = desired.deployment
    if deployment.desired is Desired.ABSENT:
        gone = observe(deployment, condition=Condition.STABLE, phase=Phase.ABSENT)
        return Plan((StopWorkers(required=True), RemoveEverything(), RecordObserved(gone)))
    if deployment.unreadable:  # nothing is begun, and its workers run on
        return Plan(rollout=observed.rollout)
    if deployment.observed_credentials != deployment.credentials:
        news = observe(deployment, credentials=deployment.credentials)
        return Plan((ChangeReaderPassword(), RecordObserved(news)), observed.rollout)
    if deployment.is_reconciled and deployment.phase is Phase.FAILED:
        return Plan(rollout=observed.rollout)
    if desired.target.workers is None:
        return give_up(desired, desired.target.problem)
    rollout = _rollout_of(desired, observed)
    if rollout is None:
        return _begin(desired, desired.target.workers, observed)
    if not observed.ensured and not _runs(desired.target.workers, observed):
        return Plan((EnsureWorkers(desired.target.workers),), rollout)
    return _evaluate_rollout(desired, desired.target.workers, rollout, observed)


def give_up(desired: DesiredState, reason: str) -> Plan:
    """Go back to the stable revision; without one that can run, stop."""
    deployment, fallback = desired.deployment, desired.fallback
    if fallback is not None and not is_rolled_back(deployment):
        if fallback.workers is not None:
            reason = f"{reason} Revision {fallback.revision.number} runs. Deploy again to try again."
            news = observe(deployment, condition=Condition.ROLLED_BACK, reason=reason)
            return Plan((EnsureWorkers(fallback.workers), RecordObserved(news)))
        reason = f"{reason} Revision {fallback.revision.number} can't run either: {fallback.problem}"
    failed = observe(deployment, condition=Condition.FAILED, phase=Phase.FAILED, reason=reason)
    return Plan((StopWorkers(required=False), RecordObserved(failed)))


def is_rolled_back(deployment: Deployment) -> bool:
    """Whether the newest rollout failed, and a previous revision runs."""
    return deployment.is_reconciled and deployment.condition is Condition.ROLLED_BACK


def fallback_of(deployment: Deployment) -> Revision | None:
    """What a failed rollout goes back to."""
    stable = deployment.revision(deployment.stable_revision)
    return None if stable is None or stable.number == deployment.desired_revision else stable


def target_of(deployment: Deployment) -> Revision:
    """The revision whose workers should run."""
    return (fallback_of(deployment) if is_rolled_back(deployment) else None) or deployment.newest


def predecessor_of(deployment: Deployment) -> Revision | None:
    """The revision that ran before the target, if it is another one."""
    running = deployment.revision(deployment.observed_revision)
    return None if running is None or running.number == target_of(deployment).number else running


def _rollout_of(desired: DesiredState, observed: ObservedState) -> Rollout | None:
    """What is remembered of this very rollout."""
    known, wanted = observed.rollout, (desired.deployment.generation, desired.target.revision.number)
    return known if known is not None and (known.generation, known.revision) == wanted else None


def _begin(desired: DesiredState, wanted: WorkerSet, observed: ObservedState) -> Plan:
    """The first round of a rollout in this process prepares what its workers need."""
    actions: list[Action] = []
    if not desired.deployment.is_reconciled:
        actions.append(PrepareRevision(desired.target.revision))
        before = desired.predecessor
        if before is not None and before.workers is not None and not observed.workers:
            actions.append(EnsureWorkers(before.workers))  # after a restart, the old one runs until the hand-over
    rollout = Rollout(desired.deployment.generation, desired.target.revision.number, observed.now)
    return Plan((*actions, EnsureWorkers(wanted)), rollout)


def _runs(wanted: WorkerSet, observed: ObservedState) -> bool:
    """Whether exactly the wanted workers are there, ready or not."""
    workers = observed.workers
    same = len(workers) == wanted.slots and all(worker.spec_hash == wanted.spec_hash for worker in workers)
    return same and not observed.successors


def _evaluate_rollout(desired: DesiredState, wanted: WorkerSet, rollout: Rollout, observed: ObservedState) -> Plan:
    deployment = desired.deployment
    first: tuple[Action, ...] = ()
    if deployment.is_reconciled and observed.now - rollout.compared_at >= PARTITIONS_EVERY_S:
        first, rollout = (MatchTopics(desired.target.revision),), replace(rollout, compared_at=observed.now)
    trying = [w for w in (*observed.workers, *observed.successors) if w.spec_hash == wanted.spec_hash]
    if _may_fail(desired) and (reason := _why_they_keep_dying(deployment.is_reconciled, rollout, trying)):
        return give_up(desired, reason)
    workers = observed.workers
    if len(workers) == wanted.slots and all(w.is_ready and w.spec_hash == wanted.spec_hash for w in workers):
        decided = _ready(desired, rollout, observed)
    else:
        decided = _not_ready(desired, rollout, observed.now, trying)
    return Plan(first + decided.actions, decided.rollout) if first else decided


def _ready(desired: DesiredState, rollout: Rollout, observed: ObservedState) -> Plan:
    deployment, number = desired.deployment, desired.target.revision.number
    deaths = _deaths(observed.workers)
    if rollout.startup_deaths is None:
        rollout = replace(rollout, startup_deaths=deaths)
    if rollout.ready_since is None or rollout.deaths != deaths:  # a worker may have died and restarted between rounds
        rollout = replace(rollout, ready_since=observed.now, deaths=deaths)
    ready_for_s = observed.now - (rollout.ready_since or 0.0)
    if not deployment.is_reconciled:
        news = observe(deployment, number, Condition.ROLLING_OUT, reason=ON_PROBATION)
        return Plan((ChangeTopicSettings(desired.target.revision), RecordObserved(news)), rollout)
    if deployment.observed_revision != number:
        news = observe(deployment, number)
    elif deployment.condition is Condition.ROLLING_OUT and ready_for_s >= STABLE_AFTER_S:
        news = observe(deployment, number, Condition.STABLE)
    elif deployment.condition is Condition.STABLE and deployment.previous_revisions:
        # This is a round of its own: it is stored by now that no rollback can reach the previous revisions.
        retired = replace(observe(deployment, number), retired=True)
        return Plan((RemovePrevious(desired.target.revision), RecordObserved(retired)), rollout)
    else:
        return Plan((), rollout)
    return Plan((RecordObserved(news),), rollout)


def _not_ready(desired: DesiredState, rollout: Rollout, now: float, workers: Sequence[WorkerStatus]) -> Plan:
    if rollout.ready_since is not None:
        rollout = replace(rollout, ready_since=None, not_ready_since=now)
    # Workers that wait for a store or broker are not at fault: the deploy call answers that the rollout continues.
    late = now - rollout.not_ready_since > READY_WITHIN_S and not any(worker.waits for worker in workers)
    if not late or not _may_fail(desired):
        return Plan((), rollout)
    what = f"The workers of revision {rollout.revision} were not ready within {READY_WITHIN_S:.0f} s."
    return give_up(desired, f"{what} {_reasons(workers)}")


def _may_fail(desired: DesiredState) -> bool:
    """True in a rollout: until the workers are ready, and on probation when there is a revision to go back to."""
    deployment = desired.deployment
    on_probation = deployment.condition is Condition.ROLLING_OUT and desired.fallback is not None
    return not deployment.is_reconciled or on_probation


def _why_they_keep_dying(on_probation: bool, rollout: Rollout, workers: Sequence[WorkerStatus]) -> str:
    """The reason to give a revision up; empty when its workers do not keep dying."""
    if on_probation:
        when, limit = f"within {STABLE_AFTER_S:.0f} s of being ready", MAX_DEATHS_ON_PROBATION
    else:
        when, limit = "before they are ready", MAX_DEATHS_IN_ROLLOUT
    if _deaths(workers) - (rollout.startup_deaths or 0) < limit:
        return ""
    return f"The workers of revision {rollout.revision} keep ending {when}. {_reasons(workers)}"


def _reasons(workers: Sequence[WorkerStatus]) -> str:
    return "; ".join(f"{w.name}: {w.reason}" for w in workers if w.reason) or "no worker has said why"


def _deaths(workers: Sequence[WorkerStatus]) -> int:
    return sum(worker.deaths for worker in workers)


def observe(
    deployment: Deployment,
    revision: int | None = None,
    condition: Condition | None = None,
    *,
    phase: Phase | None = None,
    reason: str | None = None,
    credentials: int | None = None,
) -> Observed:
    """The observed state of a deployment. Arguments that are left out keep the stored value.

    A revision that runs makes the phase RUNNING; new credentials alone are no news of a rollout.
    """
    rotation = credentials is not None
    if phase is None:
        phase = deployment.phase if rotation else Phase.RUNNING
    if reason is None:
        reason = deployment.reason if condition is None else ""
    return Observed(
        deployment.id,
        phase,
        deployment.observed_revision if revision is None else revision,
        deployment.observed_generation if rotation else deployment.generation,
        condition or deployment.condition,
        reason,
        credentials or deployment.observed_credentials,
    )
