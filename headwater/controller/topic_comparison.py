"""Compares the topics of all running deployments with their sources.

A cluster describes all topics in a few requests. A request for each deployment would take most of the CPU time of a
controller with many deployments at rest.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.brokers.base import ClusterAdmin, TopicSpec
from headwater.controller.actions import TopicSync
from headwater.controller.deployment_resources import topic_specs
from headwater.controller.deployment_sources import Sources
from headwater.controller.plan import target_of
from headwater.controller.topic_settings import needed_settings
from headwater.errors import DeployFailed
from headwater.model.binding import Binding, KafkaTopic
from headwater.model.deployment import DeployedRevision, Deployment, DesiredPhase, Phase
from headwater.model.stream import STREAM_PARTITIONS

PartitionCounts = Mapping[str, int | None]
"""The numbers of partitions of a cluster's topics (see ClusterAdmin.partition_counts)."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A deployment whose topics are compared.

    Attributes:
        deployment: The deployment.
        target: The revision that runs.
        binding: The binding of its source.
    """

    deployment: Deployment
    target: DeployedRevision
    binding: Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicComparison:
    """Finds the deployments whose topics are to be brought up to date.

    Attributes:
        own_cluster: The installation's own Kafka cluster, which has the output topics.
        sources: The sources of all deployments.
    """

    own_cluster: ClusterAdmin
    sources: Sources

    def run(self, deployments: Sequence[Deployment]) -> Mapping[str, TopicSync]:
        """Return what is to be brought up to date, by deployment id.

        The numbers of partitions are compared. Settings are not: a deployment with topic settings of its own always
        gets at least SETTINGS. Deployments with nothing to do are left out.
        """
        compared = [each for deployment in deployments if (each := self._compared(deployment)) is not None]
        topics: dict[ClusterAdmin, set[str]] = {self.own_cluster: set()}
        for each in compared:
            topics[self.own_cluster] |= {spec.name for spec in topic_specs(each.deployment, each.target, 1)}
            if isinstance(each.binding, KafkaTopic):
                topics.setdefault(self.sources.cluster(each.binding), set()).add(each.binding.topic)
        # A cluster that does not answer must not delay the others.
        with ThreadPoolExecutor(len(topics), "compare-topics") as pool:
            described = pool.map(lambda cluster: cluster.partition_counts(topics[cluster]), topics)
            counts = dict(zip(topics, described, strict=True))
        syncs = {each.deployment.id: self._due_sync(each, counts) for each in compared}
        return {id_: sync for id_, sync in syncs.items() if sync is not None}

    def _compared(self, deployment: Deployment) -> _Compared | None:
        """Return what to compare for a deployment; None when its topics stay as they are."""
        is_running = deployment.desired is DesiredPhase.RUNNING and deployment.phase is Phase.RUNNING
        target = target_of(deployment)
        is_unreadable = deployment.unreadable_reason or target.config.unreadable_reason
        if not is_running or not deployment.is_reconciled or is_unreadable:
            return None
        try:
            return _Compared(deployment, target, self.sources.binding(target.config.source))
        except DeployFailed:
            return None

    def _due_sync(self, each: _Compared, counts: Mapping[ClusterAdmin, PartitionCounts]) -> TopicSync | None:
        partitions: int | None = STREAM_PARTITIONS
        if isinstance(each.binding, KafkaTopic):
            partitions = counts[self.sources.cluster(each.binding)].get(each.binding.topic)
        if partitions is not None:
            specs = topic_specs(each.deployment, each.target, partitions)
            if has_too_few_partitions(specs, counts[self.own_cluster]):
                return TopicSync.PARTITIONS_AND_SETTINGS
        return TopicSync.SETTINGS if needed_settings(each.deployment, each.target) else None


def has_too_few_partitions(specs: Collection[TopicSpec], counts: PartitionCounts) -> bool:
    """Whether a topic does not exist, or has fewer partitions than its spec.

    In `counts`, a topic that does not exist has None. A topic that the cluster has not described is not in `counts`,
    and is not compared.
    """
    return any((counts[spec.name] or 0) < spec.partitions for spec in specs if spec.name in counts)
