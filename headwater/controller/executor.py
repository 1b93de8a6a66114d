"""Carries out the actions of a plan on Kafka, the sources and the orchestrator.

Directly before an action that removes something, it checks that this controller still holds the lease.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace

import structlog

from headwater.brokers.base import ClusterAdmin, DeploymentResources
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
from headwater.controller.deployment_resources import all_resources, reader_resources, resources, retired_topics
from headwater.controller.deployment_sources import Sources, deploy_failures_are_retriable
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.rollout_traces import RolloutTraces
from headwater.controller.source_positions import SourcePositions
from headwater.controller.topic_comparison import has_too_few_partitions
from headwater.controller.topic_settings import needed_settings, without_compaction
from headwater.errors import BrokerUnavailable, DeployFailed, RedisUnavailable
from headwater.model.deployment import DeployedRevision, Deployment, Observation, sink_topic
from headwater.model.redrive import deployment_of, is_redrive
from headwater.model.sink import TopicSink
from headwater.orchestrators.base import Orchestrator
from headwater.stores.protocols.metrics import MetricStore
from headwater.stores.protocols.redrives import RedriveOutcomeStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Carries out actions. Thread-safe for different deployments.

    Attributes:
        require_lease: Raises LeaseLost unless this controller still holds the lease.
    """

    own_cluster: ClusterAdmin
    sources: Sources
    positions: SourcePositions
    orchestrator: Orchestrator
    metrics: MetricStore
    redrive_outcomes: RedriveOutcomeStore
    flow_locks: FlowLocks
    require_lease: Callable[[], None]
    traces: RolloutTraces = field(default_factory=RolloutTraces)

    def run(self, deployment: Deployment, actions: Sequence[Action]) -> Observation | None:
        """Carry out actions in their order.

        Returns the observed state to store; None when there is none yet. Raises DeployFailed when the deployment can't
        run, Unavailable when a later call may succeed, and LeaseLost.
        """
        for action in actions:
            _log_action(deployment, action)
            with self._traced(deployment, action):
                match action:
                    case StoreObservation(observation):
                        return observation
                    case SavePositions(observation):
                        with deploy_failures_are_retriable():
                            return replace(observation, positions=self.positions.read(deployment))
                    case RewindPositions(target, observation):
                        with deploy_failures_are_retriable():
                            positions, result = self.positions.rewind(deployment, target)
                        return replace(observation, positions=positions, rewind=result)
                    case RestorePositions(target, observation):
                        positions, gaps = self.positions.restore(deployment, target)
                        return replace(observation, positions=positions, gaps=gaps)
                    case StopWorkers(must_have_ended):
                        if not self._stop_workers(deployment) and must_have_ended:
                            return None
                    case _:
                        self._carry_out(deployment, action)
        return None

    def _traced(self, deployment: Deployment, action: Action) -> AbstractContextManager[None]:
        """Return a context that records an action. Actions that repeat are not recorded."""
        if isinstance(action, StoreObservation) or _repeats(action):
            return nullcontext()
        return self.traces.action(deployment, type(action).__name__)

    def _stop_workers(self, deployment: Deployment) -> bool:
        """Stop the workers of a deployment and of its redrives.

        Returns whether all of them have ended.
        """
        with self.flow_locks.lock_of(deployment.config_id):
            running = self.orchestrator.worker_set_ids()
            redrives = [id_ for id_ in running if is_redrive(id_) and deployment_of(id_) == deployment.id]
            have_ended = [self.orchestrator.stop_workers(id_) for id_ in (deployment.id, *redrives)]
        return all(have_ended)

    def _carry_out(self, deployment: Deployment, action: Action) -> None:
        match action:
            case PrepareRevision(target):
                self._prepare(deployment, target)
            case EnsureWorkers(worker_set=worker_set):
                self.orchestrator.ensure(worker_set)
            case ChangeReaderPassword():
                with deploy_failures_are_retriable():
                    self.own_cluster.ensure(reader_resources(deployment))
            case SyncTopics(target, sync):
                self._sync_topics(deployment, target, sync)
            case ChangeTopicSettings(target):
                self.own_cluster.configure(needed_settings(deployment, target))
            case RemovePrevious(kept):
                self._remove_previous(deployment, kept)
            case RemoveAll():
                self._remove_all(deployment)

    def _prepare(self, deployment: Deployment, target: DeployedRevision) -> None:
        self.sources.require_usable_source(deployment, target)
        with self.flow_locks.lock_of(deployment.config_id):
            self._require_no_fewer_partitions(deployment, target)
            self.own_cluster.ensure(self._resources(deployment, target))
            self.own_cluster.configure(without_compaction(needed_settings(deployment, target)))
        running = deployment.revision(deployment.observed_revision)
        if running is None or running.source_epoch != target.source_epoch:
            self.sources.prepare(deployment, target)

    def _resources(self, deployment: Deployment, target: DeployedRevision) -> DeploymentResources:
        binding = self.sources.binding(target.config.source)
        return resources(deployment, target, binding, self.sources.output_partition_count(binding))

    def _require_no_fewer_partitions(self, deployment: Deployment, target: DeployedRevision) -> None:
        """Raise DeployFailed for a sink with fewer partitions than its topic has."""
        for sink in target.config.sinks:
            if isinstance(sink, TopicSink) and sink.partitions is not None:
                existing = self.own_cluster.partition_count(sink_topic(deployment.config_id, sink.name)) or 0
                if existing > sink.partitions:
                    raise DeployFailed(
                        f"The topic of the sink {sink.name} has {existing} partitions, and Kafka can't remove "
                        f"partitions. Set partitions to {existing} or more, or give the sink another name."
                    )

    def _sync_topics(self, deployment: Deployment, target: DeployedRevision, sync: TopicSync) -> None:
        with suppress(DeployFailed, BrokerUnavailable):  # the next comparison of topics requests the sync again
            if sync is TopicSync.PARTITIONS_AND_SETTINGS:
                needed = self._resources(deployment, target)
                counts = self.own_cluster.partition_counts([topic.name for topic in needed.topics])
                if has_too_few_partitions(needed.topics, counts):
                    with self.flow_locks.lock_of(deployment.config_id):
                        self.own_cluster.ensure(needed)
            self.own_cluster.configure(needed_settings(deployment, target))

    def _remove_previous(self, deployment: Deployment, kept: DeployedRevision) -> None:
        self.require_lease()
        self.sources.remove_subscriptions(deployment, kept)
        with deploy_failures_are_retriable():
            needed = self._resources(deployment, kept)
        self.require_lease()
        self.own_cluster.remove_stale(needed, retired_topics(deployment))

    def _remove_all(self, deployment: Deployment) -> None:
        self.require_lease()
        self.sources.remove_subscriptions(deployment)
        self.require_lease()
        self.own_cluster.remove_all(all_resources(deployment))
        try:
            self.metrics.drop(deployment.id)
            self.redrive_outcomes.drop(deployment.id)
        except RedisUnavailable as error:  # metrics expire, so a teardown need not wait for their removal
            log.warning(
                "metrics can't be removed; they expire by themselves", deployment=deployment.id, reason=error.detail
            )


def _repeats(action: Action) -> bool:
    """Whether plans may contain an action many times in a row.

    SyncTopics runs every minute for topics with settings of their own. Teardowns and pauses repeat StopWorkers until
    all workers have ended, and a rollout repeats EnsureWorkers until its workers have taken over. The autoscaler logs
    changes of the number of workers itself.
    """
    match action:
        case SyncTopics() | StopWorkers(must_have_ended=True) | EnsureWorkers(is_repeated=True):
            return True
    return False


def _log_action(deployment: Deployment, action: Action) -> None:
    """Log an action before it is carried out. Specs and passwords are omitted.

    Actions that repeat are logged on the level debug.
    """
    level = "debug" if _repeats(action) else "info"
    details: dict[str, object] = {}
    match action:
        case (
            PrepareRevision(revision)
            | RewindPositions(revision)
            | RestorePositions(revision)
            | SyncTopics(target=revision)
            | ChangeTopicSettings(revision)
            | RemovePrevious(revision)
        ):
            details = {"revision": revision.number}
        case EnsureWorkers(worker_set=worker_set):
            details = {"revision": worker_set.spec.revision, "workers": worker_set.slots}
        case StoreObservation(observation):
            details = {
                "revision": observation.observed_revision,
                "phase": observation.phase,
                "condition": observation.condition,
                "reason": observation.reason,
            }
    getattr(log, level)("deployment action", action=type(action).__name__, deployment=deployment.id, **details)
