"""Where deployments read: what must be there before their workers start, and what goes when they are gone.

A Kafka topic, of the own cluster or another one, has a consumer group whose first positions are pinned. A topic of
Pub/Sub has a subscription per deployment and change of source, which goes with it. A subscription that somebody else
made is left as it is; two deployments on it would each get a part of the messages, so only one may read it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from headwater.brokers.base import Broker, Subscriptions
from headwater.errors import BrokerUnavailable, DeployFailed
from headwater.model.binding import Binding, Bindings, KafkaTopic, PubSubSubscription, PubSubTopic
from headwater.model.deployment import Deployment, Phase, Revision, source_group
from headwater.model.flow import Source
from headwater.model.stream import STREAM_PARTITIONS
from headwater.model.worker import KafkaAccess, PubSubAccess

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sources:
    """broker: the own cluster. clusters, projects: of the bindings. unfinished: all deployments that have not ended."""

    bindings: Bindings
    broker: Broker
    unfinished: Callable[[], Sequence[Deployment]]
    clusters: Mapping[KafkaAccess, Broker] = field(default_factory=dict)
    projects: Mapping[PubSubAccess, Subscriptions] = field(default_factory=dict)

    def binding(self, source: Source) -> Binding:
        """Where a stream is. Raises DeployFailed when its binding was taken out of the settings since the save."""
        binding = self.bindings.of(source.chain, source.entity, zerolag=source.is_zerolag)
        if binding is None:
            raise DeployFailed(
                f"The stream {source.chain}.{source.entity} has no binding (any more): add it in the settings."
            )
        return binding

    def partitions(self, binding: Binding) -> int:
        """How many partitions the outputs need. Raises DeployFailed when the source's topic does not exist."""
        if not isinstance(binding, KafkaTopic):
            return STREAM_PARTITIONS
        partitions = self._broker(binding).partitions(binding.topic)
        if partitions is None:
            raise DeployFailed(
                f"The source topic {binding.topic} is not on the broker. "
                "Create it, or bind the stream to another topic."
            )
        return partitions

    def _broker(self, binding: KafkaTopic) -> Broker:
        return self.broker if binding.access is None else self.clusters[binding.access]

    def require(self, deployment: Deployment, target: Revision) -> None:
        """Raise DeployFailed when a revision can't be read from its source."""
        binding = self.binding(target.config.source)
        is_own = isinstance(binding, KafkaTopic) and binding.access is None
        if target.config.delivery == "exactly_once" and not is_own:
            raise DeployFailed(
                "The stream is bound to no topic of the Kafka cluster that the sinks are on (any more), so delivery "
                "can't be exactly_once: change it to at_least_once."
            )
        if isinstance(binding, PubSubSubscription):
            self.projects[binding.access].require(binding.subscription)
            self._require_alone(deployment, binding)

    def _require_alone(self, deployment: Deployment, binding: PubSubSubscription) -> None:
        """Raise DeployFailed when another deployment reads the subscription, or asks for it too and is older."""
        for other in self.unfinished():
            gave_up = other.is_reconciled and other.phase is Phase.FAILED
            if other.id == deployment.id or gave_up:
                continue
            reads = self._reads(other.revision(other.observed_revision), binding)
            if reads or (self._reads(other.newest, binding) and other.id < deployment.id):
                raise DeployFailed(
                    f"Another pipeline reads the subscription {binding.subscription}, and each of two would get a part "
                    "of its messages. Tear that one down first, or bind the stream to a topic of Pub/Sub."
                )

    def _reads(self, revision: Revision | None, binding: PubSubSubscription) -> bool:
        if revision is None:
            return False
        source = revision.config.source
        return self.bindings.of(source.chain, source.entity, zerolag=source.is_zerolag) == binding

    def begin(self, deployment: Deployment, target: Revision) -> None:
        """Fix where a source is read from first. No worker reads it yet."""
        source = target.config.source
        binding, group = self.binding(source), source_group(deployment.id, target.source_epoch)
        match binding:
            case KafkaTopic():
                self._broker(binding).pin(group, binding.topic, source.start_at)
            case PubSubTopic():
                self.projects[binding.access].ensure(group, binding.topic, source.start_at)

    def lag(self, access: KafkaAccess | None, groups: Collection[str]) -> Mapping[str, int]:
        """See brokers.base.Broker; of a cluster that is in no binding any more nothing is known."""
        broker = self.broker if access is None else self.clusters.get(access)
        return {} if broker is None else broker.lag(groups)

    def end(self, deployment: Deployment, kept: Revision | None = None) -> None:
        """Remove the subscriptions of a deployment, except the one of the revision that is kept."""
        keep = source_group(deployment.id, kept.source_epoch) if kept is not None else None
        for access, name in set(self._subscriptions(deployment)):
            if name != keep:
                with _retried_later():
                    self.projects[access].drop([name])

    def _subscriptions(self, deployment: Deployment) -> Iterator[tuple[PubSubAccess, str]]:
        for revision in deployment.revisions:
            source = revision.config.source
            binding = self.bindings.of(source.chain, source.entity, zerolag=source.is_zerolag)
            if isinstance(binding, PubSubTopic):
                yield binding.access, source_group(deployment.id, revision.source_epoch)

    def names(self) -> frozenset[str]:
        """All subscriptions of the projects and all groups of the other clusters, also those of other programs."""
        names: set[str] = set()
        for project in self._own_projects():
            with _retried_later():
                names |= project.names()
        for cluster in self.clusters.values():
            names |= cluster.groups()
        return frozenset(names)

    def drop(self, prefixes: Sequence[str]) -> None:
        """Remove the subscriptions, and the empty groups of other clusters, whose names begin with a prefix."""
        for project in self._own_projects():
            with _retried_later():
                if orphans := [name for name in sorted(project.names()) if name.startswith(tuple(prefixes))]:
                    log.warning("subscriptions of ended deployments are removed", subscriptions=orphans)
                    project.drop(orphans)
        for cluster in self.clusters.values():
            cluster.drop_groups(prefixes)

    def _own_projects(self) -> Iterator[Subscriptions]:
        """The projects in which deployments create subscriptions."""
        accesses = {b.access for b in self.bindings.named.values() if isinstance(b, PubSubTopic)}
        return (self.projects[access] for access in accesses)


@contextmanager
def _retried_later() -> Iterator[None]:
    """Turn DeployFailed into a retriable error: removals are retried, even when rights are missing."""
    try:
        yield
    except DeployFailed as error:
        raise BrokerUnavailable(error.detail) from error
