"""Prepares the sources of deployments, and removes their subscriptions and groups.

For a Kafka topic, the start offsets of the deployment's consumer group are committed before its workers start. For a
Pub/Sub topic, each deployment gets a subscription, and another one after each change of its source. A subscription that
the operator has created is used unchanged, and only by one deployment, because two deployments would each get a part of
the messages.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from headwater.brokers.base import ClusterAdmin, Subscriptions
from headwater.errors import BrokerUnavailable, DeployFailed
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Binding, Bindings, KafkaTopic, PubSubSubscription, PubSubTopic
from headwater.model.deployment import DeployedRevision, Deployment, Phase, worker_group
from headwater.model.flow import Source
from headwater.model.stream import STREAM_PARTITIONS, stream_name

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of all deployments.

    Attributes:
        bindings: Where this installation reads each stream: a Kafka topic, or Google Pub/Sub.
        own_cluster: The installation's own Kafka cluster.
        active_deployments: Returns all deployments that have not ended.
        clusters: The other Kafka clusters of the bindings, by how to connect to them.
        projects: The Pub/Sub projects of the bindings, by how to connect to them.
    """

    bindings: Bindings
    own_cluster: ClusterAdmin
    active_deployments: Callable[[], Sequence[Deployment]]
    clusters: Mapping[KafkaAccess, ClusterAdmin] = field(default_factory=dict)
    projects: Mapping[PubSubAccess, Subscriptions] = field(default_factory=dict)

    def binding(self, source: Source) -> Binding:
        """Return the binding of a stream.

        Raises DeployFailed when the binding was removed from the settings after the configuration was saved.
        """
        binding = self.bindings.find(source.chain, source.entity, zerolag=source.is_zerolag)
        if binding is None:
            name = stream_name(source.chain, source.entity, zerolag=source.is_zerolag)
            raise DeployFailed(
                f"The stream {name} is not bound to a topic. Bind it in the file of HEADWATER_STREAM_BINDINGS."
            )
        return binding

    def source_partition_count(self, binding: KafkaTopic) -> int:
        """Return how many partitions a source topic has.

        Raises DeployFailed when the topic does not exist.
        """
        partitions = self.cluster(binding).partition_count(binding.topic)
        if partitions is None:
            raise self.missing_topic_error(binding)
        return partitions

    def output_partition_count(self, binding: Binding) -> int:
        """Return how many partitions the output topics need by default.

        They need as many as the source topic has. A Pub/Sub topic has no partitions, so the number is then
        STREAM_PARTITIONS. Raises DeployFailed when the source topic does not exist.
        """
        return self.source_partition_count(binding) if isinstance(binding, KafkaTopic) else STREAM_PARTITIONS

    def missing_topic_error(self, binding: KafkaTopic) -> DeployFailed:
        """Return the error for a source topic that does not exist."""
        return DeployFailed(
            f"The source topic {binding.topic} does not exist. Create it, or bind the stream to another topic."
        )

    def cluster(self, binding: KafkaTopic) -> ClusterAdmin:
        """Return the Kafka cluster of a binding."""
        return self.own_cluster if binding.access is None else self.clusters[binding.access]

    def require_usable_source(self, deployment: Deployment, target: DeployedRevision) -> None:
        """Raise DeployFailed when a revision can't use what its stream is bound to.

        Exactly-once delivery needs a topic of the installation's own Kafka cluster. A subscription must exist, and no
        other deployment may read it.
        """
        binding = self.binding(target.config.source)
        is_own = isinstance(binding, KafkaTopic) and binding.access is None
        if target.config.delivery == "exactly_once" and not is_own:
            raise DeployFailed(
                "The stream is not bound to a topic of the sinks' Kafka cluster, so delivery can't be exactly_once. "
                "Change it to at_least_once."
            )
        if isinstance(binding, PubSubSubscription):
            self.projects[binding.access].require_exists(binding.subscription)
            self._require_sole_reader(deployment, binding)

    def _require_sole_reader(self, deployment: Deployment, binding: PubSubSubscription) -> None:
        """Raise DeployFailed when another deployment reads the subscription.

        Of two deployments that have requested the subscription, the one with the smaller id reads it. Ids are ULIDs, so
        it is the older deployment.
        """
        for other in self.active_deployments():
            has_failed = other.is_reconciled and other.phase is Phase.FAILED
            if other.id == deployment.id or has_failed:
                continue
            reads_now = self._reads(other.revision(other.observed_revision), binding)
            will_read = self._reads(other.desired_revision_record, binding)
            if reads_now or (will_read and other.id < deployment.id):
                raise DeployFailed(
                    f"Another pipeline reads the subscription {binding.subscription}, and two would each get a part "
                    "of its messages. Tear down the other pipeline first, or bind the stream to a Pub/Sub topic."
                )

    def _reads(self, revision: DeployedRevision | None, binding: PubSubSubscription) -> bool:
        """Whether the source of a revision is bound to the subscription."""
        if revision is None:
            return False
        source = revision.config.source
        return self.bindings.find(source.chain, source.entity, zerolag=source.is_zerolag) == binding

    def prepare(self, deployment: Deployment, target: DeployedRevision) -> None:
        """Set the start position of a source, before any worker reads it.

        A subscription has the name that the workers' consumer group would have on Kafka.
        """
        source = target.config.source
        binding, name = self.binding(source), worker_group(deployment.id, target.source_epoch)
        match binding:
            case KafkaTopic():
                self.cluster(binding).commit_start_offsets(name, binding.topic, source.start_at)
            case PubSubTopic():
                self.projects[binding.access].ensure(name, binding.topic, source.start_at)

    def seek(self, deployment: Deployment, target: DeployedRevision, position: str) -> None:
        """Move the Pub/Sub subscription of a revision to "earliest", "latest" or an RFC 3339 time.

        Raises DeployFailed when the position is in the past and acknowledged messages are not kept, and when another
        deployment reads the subscription: it would lose its messages.
        """
        binding = self.binding(target.config.source)
        match binding:
            case PubSubTopic():
                project = self.projects[binding.access]
                group = worker_group(deployment.id, target.source_epoch)
                project.ensure(group, binding.topic, target.config.source.start_at)
                project.seek(project.path(group), position)
            case PubSubSubscription():
                self._require_sole_reader(deployment, binding)
                self.projects[binding.access].seek(binding.subscription, position)

    def lag(self, access: KafkaAccess | None, groups: Collection[str]) -> Mapping[str, int]:
        """Return the lag of consumer groups on a cluster, by group.

        Returns nothing for a cluster that is no longer in a binding. `access` is None for the installation's own
        cluster.
        """
        cluster = self.own_cluster if access is None else self.clusters.get(access)
        return {} if cluster is None else cluster.lag(groups)

    def remove_subscriptions(self, deployment: Deployment, kept: DeployedRevision | None = None) -> None:
        """Remove the subscriptions of a deployment, except the one that the revision `kept` reads."""
        kept_name = worker_group(deployment.id, kept.source_epoch) if kept is not None else None
        for access, name in set(self._subscriptions(deployment)):
            if name != kept_name:
                with deploy_failures_are_retriable():
                    self.projects[access].delete([name])

    def _subscriptions(self, deployment: Deployment) -> Iterator[tuple[PubSubAccess, str]]:
        for revision in deployment.revisions:
            source = revision.config.source
            binding = self.bindings.find(source.chain, source.entity, zerolag=source.is_zerolag)
            if isinstance(binding, PubSubTopic):
                yield binding.access, worker_group(deployment.id, revision.source_epoch)

    def subscriptions(self) -> frozenset[str]:
        """Return the names of the projects' subscriptions.

        Subscriptions of other programs are included.
        """
        names: set[str] = set()
        for project in self._projects_with_created_subscriptions():
            with deploy_failures_are_retriable():
                names |= project.names()
        return frozenset(names)

    def external_groups(self) -> Mapping[str, bool]:
        """Return the consumer groups of the other clusters, and whether each has members.

        Groups of other programs are included.
        """
        groups: dict[str, bool] = {}
        for cluster in self.clusters.values():
            for group, has_members in cluster.groups().items():
                groups[group] = has_members or groups.get(group, False)
        return groups

    def remove_subscriptions_and_groups(self, prefixes: Sequence[str]) -> None:
        """Remove subscriptions, and empty groups of other clusters, by the prefix of their names."""
        for project in self._projects_with_created_subscriptions():
            with deploy_failures_are_retriable():
                if orphans := [name for name in sorted(project.names()) if name.startswith(tuple(prefixes))]:
                    log.warning("subscriptions of ended deployments are removed", subscriptions=orphans)
                    project.delete(orphans)
        for cluster in self.clusters.values():
            cluster.delete_groups(prefixes)

    def _projects_with_created_subscriptions(self) -> Iterator[Subscriptions]:
        """Return the projects in which deployments create subscriptions."""
        accesses = {binding.access for binding in self.bindings.by_stream.values() if isinstance(binding, PubSubTopic)}
        return (self.projects[access] for access in accesses)


@contextmanager
def deploy_failures_are_retriable() -> Iterator[None]:
    """Turn DeployFailed into BrokerUnavailable, so that the controller tries again.

    DeployFailed rolls the deployment back, or stops its workers. That is right for a rollout, but a removal must be
    completed, and a failed change of the readers' password must not stop workers.
    """
    try:
        yield
    except DeployFailed as error:
        raise BrokerUnavailable(error.detail) from error
