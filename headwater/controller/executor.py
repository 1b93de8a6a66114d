"""Carries out the actions of a plan on the broker, the sources and the orchestrator.

Right before an action that removes something, it asks whether this controller still leads.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from headwater.brokers.base import Broker, Resources
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
from headwater.controller.flow_locks import FlowLocks
from headwater.controller.resources import everything, readers, resources, retired_topics
from headwater.controller.sources import Sources
from headwater.controller.topic_settings import changed_settings, without_compaction
from headwater.errors import BrokerUnavailable, DeployFailed, SetStoreUnavailable
from headwater.model.deployment import Deployment, Observed, Revision, sink_topic
from headwater.model.sink import KafkaSink
from headwater.orchestrators.base import Orchestrator
from headwater.stores.base import MetricStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out actions. Thread-safe for different deployments.

    confirm: returns while this controller leads, and raises otherwise.
    """

    broker: Broker
    sources: Sources
    orchestrator: Orchestrator
    metrics: MetricStore
    flow_locks: FlowLocks
    confirm: Callable[[], None]

    def run(self, deployment: Deployment, actions: Sequence[Action]) -> Observed | None:
        """Carry out actions in their order. Returns the observed state to store; None when there is none yet.

        Raises DeployFailed when the deployment can't run, Unavailable when a later round may succeed, and LeaseLost.
        """
        for action in actions:
            match action:
                case RecordObserved(observed):
                    return observed
                case StopWorkers(required):
                    if not self.orchestrator.drop(deployment.id) and required:
                        return None
                case _:
                    self._do(deployment, action)
        return None

    def _do(self, deployment: Deployment, action: Action) -> None:
        match action:
            case PrepareRevision(target):
                self._prepare(deployment, target)
            case EnsureWorkers(workers):
                self.orchestrator.ensure(workers)
            case ChangeReaderPassword():
                self.broker.ensure(readers(deployment))
            case MatchTopics(target):
                self._match_topics(deployment, target)
            case ChangeTopicSettings(target):
                self.broker.configure(changed_settings(deployment, target))
            case RemovePrevious(kept):
                self._remove_previous(deployment, kept)
            case RemoveEverything():
                self._remove_everything(deployment)

    def _prepare(self, deployment: Deployment, target: Revision) -> None:
        self.sources.require(deployment, target)
        with self.flow_locks.of(deployment.flow_id):
            self._require_no_fewer_partitions(deployment, target)
            self.broker.ensure(self._resources(deployment, target))
            self.broker.configure(without_compaction(changed_settings(deployment, target)))
        running = deployment.revision(deployment.observed_revision)
        if running is None or running.source_epoch != target.source_epoch:
            self.sources.begin(deployment, target)

    def _resources(self, deployment: Deployment, target: Revision) -> Resources:
        binding = self.sources.binding(target.config.source)
        return resources(deployment, target, binding, self.sources.partitions(binding))

    def _require_no_fewer_partitions(self, deployment: Deployment, target: Revision) -> None:
        """Raise DeployFailed for a sink with fewer partitions than its topic has."""
        for sink in target.config.sinks:
            if isinstance(sink, KafkaSink) and sink.partitions is not None:
                present = self.broker.partitions(sink_topic(deployment.flow_id, sink.name)) or 0
                if present > sink.partitions:
                    raise DeployFailed(
                        f"The topic of the sink {sink.name} has {present} partitions, and Kafka takes none away. Set "
                        f"partitions to {present} or more, or give the sink another name."
                    )

    def _match_topics(self, deployment: Deployment, target: Revision) -> None:
        with suppress(DeployFailed, BrokerUnavailable):  # the workers' states show these errors
            needed = self._resources(deployment, target)
            if any((self.broker.partitions(topic.name) or 0) < topic.partitions for topic in needed.topics):
                with self.flow_locks.of(deployment.flow_id):
                    self.broker.ensure(needed)
            self.broker.configure(changed_settings(deployment, target))

    def _remove_previous(self, deployment: Deployment, kept: Revision) -> None:
        self.confirm()
        self.sources.end(deployment, kept)
        try:
            needed = self._resources(deployment, kept)
        except DeployFailed as error:
            raise BrokerUnavailable(error.detail) from error
        self.confirm()
        self.broker.trim(needed, retired_topics(deployment))

    def _remove_everything(self, deployment: Deployment) -> None:
        self.confirm()
        self.sources.end(deployment)
        self.confirm()
        self.broker.drop(everything(deployment))
        try:
            self.metrics.drop(deployment.id)
        except SetStoreUnavailable as error:  # they expire by themselves; a teardown does not wait for the set store
            log.warning("metrics are left to expire", deployment=deployment.id, reason=error.detail)
