"""One deployment, one round: compare what is desired with what there is, act, say what was seen.

Level-triggered and idempotent: a round may be cut off anywhere and the next one finishes its work.
Up: topics, users and rules (verified by logging in) → start offsets pinned → worker set → ready → observed.
Down: workers gone → rules → users → topics → observed; consumer groups follow as soon as they are empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.brokers.base import Broker, Resources
from headwater.controller.plan import WorkerSettings, resources, worker_set
from headwater.errors import DeployFailed
from headwater.model.deployment import Condition, Deployment, Desired, Observed, Phase, WorkerStatus
from headwater.model.flow import Flow, Source
from headwater.orchestrators.base import Orchestrator
from headwater.stores import removal
from headwater.stores.base import FlowStore, RevisionStore, SetStore

READY_WITHIN_S = 50.0
MAX_DEATHS_IN_ROLLOUT = 3


@dataclass(slots=True)
class Rollout:
    """What this process knows of a deployment between rounds; losing it only repeats idempotent steps."""

    generation: int
    started_at: float


@dataclass(slots=True)
class Reconciler:
    """topic_of: the Kafka topic that a source is bound to. clock: monotonic seconds."""

    flows: FlowStore
    revisions: RevisionStore
    sets: SetStore
    broker: Broker
    orchestrator: Orchestrator
    settings: WorkerSettings
    topic_of: Callable[[Source], str]
    clock: Callable[[], float]
    _rollouts: dict[str, Rollout] = field(default_factory=dict)

    def round(self, deployment: Deployment) -> Observed | None:
        """Bring a deployment nearer to what is desired. None: no news. Raises Unavailable: try again later."""
        try:
            if deployment.desired is Desired.ABSENT:
                return self._down(deployment)
            return self._up(deployment)
        except DeployFailed as error:
            return self._failed(deployment, error.detail)

    def purge(self, flow: Flow) -> None:
        """Remove a deleted configuration that has no deployment: its filter values, then its row."""
        removal.purge(flow.id, self.flows, self.revisions, self.sets)

    def _up(self, deployment: Deployment) -> Observed | None:
        if deployment.settled and deployment.phase is Phase.FAILED:
            return None
        topic = self.topic_of(deployment.config.source)
        rollout = self._rollouts.get(deployment.id)
        if rollout is None or rollout.generation != deployment.generation:
            rollout = Rollout(deployment.generation, self.clock())
            if not deployment.settled:
                self._prepare(deployment, topic)
            self._rollouts[deployment.id] = rollout
        wanted = worker_set(deployment, topic, self.settings)
        self.orchestrator.ensure(wanted)
        if deployment.settled:
            return None
        workers = [w for w in self.orchestrator.status(deployment.id) if w.spec_hash in (wanted.spec_hash, "")]
        if len(workers) == wanted.slots and all(w.is_ready and w.spec_hash == wanted.spec_hash for w in workers):
            return _observed(deployment, Phase.RUNNING, Condition.STABLE)
        self._check_progress(rollout, workers)
        return None

    def _prepare(self, deployment: Deployment, topic: str) -> None:
        self.broker.ensure(self._resources(deployment, topic))
        group = worker_set(deployment, topic, self.settings).spec.source_group
        self.broker.pin(group, topic, deployment.config.source.start_at)

    def _resources(self, deployment: Deployment, topic: str) -> Resources:
        partitions = self.broker.partitions(topic)
        if partitions is None:
            raise DeployFailed(
                f"The source topic {topic} is not on the broker. Create it, or bind the stream to another topic."
            )
        return resources(deployment, topic, partitions)

    def _check_progress(self, rollout: Rollout, workers: Sequence[WorkerStatus]) -> None:
        reasons = "; ".join(f"{w.name}: {w.reason}" for w in workers if w.reason) or "no worker has said why"
        if any(w.restart_count >= MAX_DEATHS_IN_ROLLOUT for w in workers):
            raise DeployFailed(f"The workers keep ending before they are ready. {reasons}")
        if self.clock() - rollout.started_at > READY_WITHIN_S:
            raise DeployFailed(f"The workers were not ready within {READY_WITHIN_S:.0f} s. {reasons}")

    def _failed(self, deployment: Deployment, reason: str) -> Observed:
        self.orchestrator.drop(deployment.id)
        self._rollouts.pop(deployment.id, None)
        return _observed(deployment, Phase.FAILED, Condition.FAILED, reason)

    def _down(self, deployment: Deployment) -> Observed | None:
        self._rollouts.pop(deployment.id, None)
        if not self.orchestrator.drop(deployment.id):
            return None
        self.broker.drop(resources(deployment, self.topic_of(deployment.config.source), 1))
        return _observed(deployment, Phase.ABSENT, Condition.STABLE)


def _observed(deployment: Deployment, phase: Phase, condition: Condition, reason: str = "") -> Observed:
    revision = deployment.desired_revision if phase is Phase.RUNNING else deployment.observed_revision
    return Observed(deployment.id, phase, revision, deployment.generation, condition, reason)
