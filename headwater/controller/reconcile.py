"""One deployment, one round: compare what is desired with what there is, act, say what was seen.

Level-triggered and idempotent: a round may be cut off anywhere and the next one finishes its work.
Up: topics, users and rules (verified by logging in) → first positions fixed → worker set → ready → stable → what only
other revisions had is removed.
Down: workers gone → subscriptions → rules → users → topics → observed; consumer groups follow once they are empty.

A revision that does not get ready, or dies while it is on probation, goes back to the stable one. Until its workers
are prepared to take over, those of the stable one run on (see orchestrators/base.py).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from headwater.brokers.base import Broker, Resources
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.plan import WorkerSettings, everything, readers, resources, retired_topics, worker_set
from headwater.controller.sources import Sources
from headwater.errors import BrokerUnavailable, DeployFailed, SetStoreUnavailable
from headwater.model.deployment import Condition, Deployment, Desired, Observed, Phase, Revision, WorkerStatus
from headwater.model.flow import Flow
from headwater.model.worker import WorkerSet
from headwater.orchestrators.base import Orchestrator
from headwater.stores import removal
from headwater.stores.base import FlowStore, MetricStore, RevisionStore, SetStore

log = structlog.get_logger(__name__)

READY_WITHIN_S = 50.0
STABLE_AFTER_S = 30.0
"""How long a revision is on probation after its workers are ready."""
ON_PROBATION = f"All workers are ready. The revision is stable when they have been so for {STABLE_AFTER_S:.0f} s."
PARTITIONS_EVERY_S = 60.0
"""How often the partitions of a running deployment's source are looked at."""
MAX_DEATHS_IN_ROLLOUT = 3
MAX_DEATHS_ON_PROBATION = 2


@dataclass(slots=True)
class Rollout:
    """What this process knows of a rollout between rounds; losing it only repeats idempotent steps.

    not_ready_since, ready_since: monotonic seconds; the latter None while the workers are not ready. forgiven: deaths
    of its workers before they were ready for the first time; None until then. deaths: when they were ready last.
    compared_at: when the partitions of outputs and source were compared last; monotonic seconds.
    """

    generation: int
    revision: int
    not_ready_since: float
    ready_since: float | None = None
    forgiven: int | None = None
    deaths: int = 0
    compared_at: float = float("-inf")


@dataclass(slots=True)
class Reconciler:
    """clock: monotonic seconds."""

    flows: FlowStore
    revisions: RevisionStore
    sets: SetStore
    metrics: MetricStore
    broker: Broker
    orchestrator: Orchestrator
    settings: WorkerSettings
    sources: Sources
    clock: Callable[[], float]
    flow_locks: FlowLocks
    confirm: Callable[[], None]
    _rollouts: dict[str, Rollout] = field(default_factory=dict)

    def round(self, deployment: Deployment) -> Observed | None:
        """Bring a deployment nearer to what is desired. None: no news. Raises Unavailable: try again later."""
        if deployment.desired is Desired.ABSENT:
            return self._down(deployment)
        if deployment.observed_credentials != deployment.credentials:
            self.broker.ensure(readers(deployment))
            return _observed(deployment, credentials=deployment.credentials)
        try:
            return self._up(deployment)
        except DeployFailed as error:
            return self._give_up(deployment, error.detail)

    def purge(self, flow: Flow) -> None:
        """Remove a deleted configuration that has no deployment: its filter values, then its row."""
        self.confirm()
        removal.purge(flow.id, self.flows, self.revisions, self.sets)

    # Up.

    def _up(self, deployment: Deployment) -> Observed | None:
        if deployment.settled and deployment.phase is Phase.FAILED:
            return None
        target = _target(deployment)
        wanted = self._worker_set(deployment, target)
        rollout = self._rollout(deployment, target)
        self.orchestrator.ensure(wanted)
        if deployment.settled and self.clock() - rollout.compared_at >= PARTITIONS_EVERY_S:
            rollout.compared_at = self.clock()
            self._match_partitions(deployment, target)
        trying = self._trying(wanted)
        if _may_fail(deployment) and (reason := _why_they_keep_dying(deployment.settled, rollout, trying)):
            return self._give_up(deployment, reason)
        workers = self.orchestrator.status(deployment.id)
        if len(workers) == wanted.slots and all(w.is_ready and w.spec_hash == wanted.spec_hash for w in workers):
            return self._ready(deployment, target, rollout, workers)
        return self._not_ready(deployment, rollout, trying)

    def _worker_set(self, deployment: Deployment, revision: Revision) -> WorkerSet:
        return worker_set(deployment, revision, self.sources.binding(revision.config.source), self.settings)

    def _rollout(self, deployment: Deployment, target: Revision) -> Rollout:
        """What is known of this rollout. The first round of one prepares what its workers need."""
        known = self._rollouts.get(deployment.id)
        if known is not None and (known.generation, known.revision) == (deployment.generation, target.number):
            return known
        if not deployment.settled:
            self._prepare(deployment, target)
            self._bring_back_predecessor(deployment, target)
        rollout = Rollout(deployment.generation, target.number, self.clock())
        self._rollouts[deployment.id] = rollout
        return rollout

    def _prepare(self, deployment: Deployment, target: Revision) -> None:
        self.sources.require(deployment, target)
        with self.flow_locks.of(deployment.flow_id):
            self.broker.ensure(self._resources(deployment, target))
        running = deployment.revision(deployment.observed_revision)
        if running is None or running.source_epoch != target.source_epoch:
            self.sources.begin(deployment, target)

    def _resources(self, deployment: Deployment, target: Revision) -> Resources:
        binding = self.sources.binding(target.config.source)
        return resources(deployment, target, binding, self.sources.partitions(binding))

    def _match_partitions(self, deployment: Deployment, target: Revision) -> None:
        """A record goes to the partition number that it came from: a source that got more needs outputs with more."""
        with suppress(DeployFailed, BrokerUnavailable):  # the workers tell that themselves
            needed = self._resources(deployment, target)
            if any((self.broker.partitions(topic.name) or 0) < topic.partitions for topic in needed.topics):
                with self.flow_locks.of(deployment.flow_id):
                    self.broker.ensure(needed)

    def _bring_back_predecessor(self, deployment: Deployment, target: Revision) -> None:
        """After a restart of the controller in a rollout: what ran runs again while its successor prepares."""
        running = deployment.revision(deployment.observed_revision)
        if running is None or running.number == target.number or deployment.id in self.orchestrator.running():
            return
        self.orchestrator.ensure(self._worker_set(deployment, running))

    def _trying(self, wanted: WorkerSet) -> list[WorkerStatus]:
        """The workers of a set, whether they run already or prepare to take over."""
        of = (self.orchestrator.status(wanted.deployment_id), self.orchestrator.successors(wanted.deployment_id))
        return [worker for workers in of for worker in workers if worker.spec_hash == wanted.spec_hash]

    def _ready(
        self, deployment: Deployment, target: Revision, rollout: Rollout, workers: Sequence[WorkerStatus]
    ) -> Observed | None:
        now, deaths = self.clock(), _deaths(workers)
        if rollout.forgiven is None:
            rollout.forgiven = deaths
        if rollout.ready_since is None or rollout.deaths != deaths:  # who died and is back between two rounds counts
            rollout.ready_since, rollout.deaths = now, deaths
        if not deployment.settled:
            return _observed(deployment, target.number, Condition.ROLLING_OUT, reason=ON_PROBATION)
        if deployment.observed_revision != target.number:
            return _observed(deployment, target.number)
        if deployment.condition is Condition.ROLLING_OUT and now - rollout.ready_since >= STABLE_AFTER_S:
            return _observed(deployment, target.number, Condition.STABLE)
        if deployment.condition is Condition.STABLE and deployment.others:
            return self._retire_others(deployment, target)
        return None

    def _retire_others(self, deployment: Deployment, target: Revision) -> Observed:
        """A round of its own: by now it is stored that nothing goes back to them. Nor does it end what runs."""
        self.confirm()
        self.sources.end(deployment, target)
        try:
            kept = self._resources(deployment, target)
        except DeployFailed as error:
            raise BrokerUnavailable(error.detail) from error
        self.broker.trim(kept, retired_topics(deployment))
        return replace(_observed(deployment, target.number), retired=True)

    def _not_ready(self, deployment: Deployment, rollout: Rollout, workers: Sequence[WorkerStatus]) -> Observed | None:
        if rollout.ready_since is not None:
            rollout.ready_since, rollout.not_ready_since = None, self.clock()
        if not _may_fail(deployment):
            return None
        # Those that wait for a store or broker are not to blame: a deploy call answers that it goes on.
        if self.clock() - rollout.not_ready_since > READY_WITHIN_S and not any(w.waits for w in workers):
            what = f"The workers of revision {rollout.revision} were not ready within {READY_WITHIN_S:.0f} s."
            return self._give_up(deployment, f"{what} {_reasons(workers)}")
        return None

    def _give_up(self, deployment: Deployment, reason: str) -> Observed:
        """Go back to the stable revision; without one that can run, stop."""
        self._rollouts.pop(deployment.id, None)
        fallback = _fallback(deployment)
        if fallback is not None and not _rolled_back(deployment):
            try:
                self.orchestrator.ensure(self._worker_set(deployment, fallback))
            except DeployFailed as error:
                reason = f"{reason} Revision {fallback.number} can't run either: {error.detail}"
            else:
                reason = f"{reason} Revision {fallback.number} runs. Deploy again to try again."
                return _observed(deployment, condition=Condition.ROLLED_BACK, reason=reason)
        self.orchestrator.drop(deployment.id)
        return _observed(deployment, condition=Condition.FAILED, phase=Phase.FAILED, reason=reason)

    # Down.

    def _down(self, deployment: Deployment) -> Observed | None:
        self._rollouts.pop(deployment.id, None)
        if not self.orchestrator.drop(deployment.id):
            return None
        self.confirm()
        self.sources.end(deployment)
        self.confirm()
        self.broker.drop(everything(deployment))
        self._drop_metrics(deployment)
        return _observed(deployment, condition=Condition.STABLE, phase=Phase.ABSENT)

    def _drop_metrics(self, deployment: Deployment) -> None:
        """They expire by themselves; a teardown does not wait for the set store."""
        try:
            self.metrics.drop(deployment.id)
        except SetStoreUnavailable as error:
            log.warning("metrics are left to expire", deployment=deployment.id, reason=error.detail)


def _rolled_back(deployment: Deployment) -> bool:
    return deployment.settled and deployment.condition is Condition.ROLLED_BACK


def _fallback(deployment: Deployment) -> Revision | None:
    """What a failed rollout goes back to."""
    stable = deployment.revision(deployment.stable_revision)
    return None if stable is None or stable.number == deployment.desired_revision else stable


def _target(deployment: Deployment) -> Revision:
    """The revision whose workers should run."""
    return (_fallback(deployment) if _rolled_back(deployment) else None) or deployment.newest


def _may_fail(deployment: Deployment) -> bool:
    """True in a rollout: until the workers are ready, and on probation when there is a revision to go back to."""
    on_probation = deployment.condition is Condition.ROLLING_OUT and _fallback(deployment) is not None
    return not deployment.settled or on_probation


def _why_they_keep_dying(on_probation: bool, rollout: Rollout, workers: Sequence[WorkerStatus]) -> str:
    """Empty: they don't."""
    if on_probation:
        when, limit = f"within {STABLE_AFTER_S:.0f} s of being ready", MAX_DEATHS_ON_PROBATION
    else:
        when, limit = "before they are ready", MAX_DEATHS_IN_ROLLOUT
    if _deaths(workers) - (rollout.forgiven or 0) < limit:
        return ""
    return f"The workers of revision {rollout.revision} keep ending {when}. {_reasons(workers)}"


def _reasons(workers: Sequence[WorkerStatus]) -> str:
    return "; ".join(f"{w.name}: {w.reason}" for w in workers if w.reason) or "no worker has said why"


def _deaths(workers: Sequence[WorkerStatus]) -> int:
    return sum(worker.deaths for worker in workers)


def _observed(
    deployment: Deployment,
    revision: int | None = None,
    condition: Condition | None = None,
    *,
    phase: Phase | None = None,
    reason: str | None = None,
    credentials: int | None = None,
) -> Observed:
    """What was seen. Left out: as before; a revision that runs makes the phase RUNNING, credentials alone no news."""
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
