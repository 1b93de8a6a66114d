"""The names of deployments' resources in Kafka and in Pub/Sub.

Each name contains the id of the deployment. The name of a topic contains the id of the configuration instead.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields

from headwater.brokers.base import Inventory

_NAME_WITH_DEPLOYMENT_ID = re.compile(r"^(?:dep|wrk)-([0-9a-z]{26})(?:\.|$)")
_TOPIC_WITH_CONFIG_ID = re.compile(r"^flow\.([0-9a-z]{26})\.")


def deployment_id_of(name: str) -> str | None:
    """Return the deployment of a user, a consumer group or a subscription.

    Returns None for names of another form.
    """
    match = _NAME_WITH_DEPLOYMENT_ID.match(name)
    return match[1] if match else None


def config_id_of(topic: str) -> str | None:
    """Return the configuration of a topic; None for names of another form."""
    match = _TOPIC_WITH_CONFIG_ID.match(topic)
    return match[1] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """Names of resources of deployments, by kind.

    Attributes:
        topics: Topics of sinks, and dead-letter topics: `flow.<configuration id>.<sink or dlq>`.
        users: SCRAM users, and users that only have ACLs.
        groups: Consumer groups of the installation's own Kafka cluster.
        external_groups: Consumer groups of the other Kafka clusters in the stream bindings.
        subscriptions: Pub/Sub subscriptions.
        running_deployment_ids: The ids of the deployments that have workers, or of which something is left.
    """

    topics: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    external_groups: frozenset[str] = frozenset()
    subscriptions: frozenset[str] = frozenset()
    running_deployment_ids: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return any(getattr(self, kind.name) for kind in fields(self))

    @property
    def deployment_ids(self) -> frozenset[str]:
        """The ids of the deployments of these resources.

        Topics are ignored, because their names contain the id of a configuration.
        """
        ids = map(deployment_id_of, self.users | self.groups | self.external_groups | self.subscriptions)
        return frozenset(filter(None, ids)) | self.running_deployment_ids

    @property
    def config_ids(self) -> frozenset[str]:
        """The ids of the configurations of the topics."""
        return frozenset(filter(None, map(config_id_of, self.topics)))

    def topics_by_config_id(self) -> dict[str, set[str]]:
        """Return the topics by the id of their configuration."""
        topics_by_id: dict[str, set[str]] = {}
        for topic in self.topics:
            if config_id := config_id_of(topic):
                topics_by_id.setdefault(config_id, set()).add(topic)
        return topics_by_id

    def restricted_to(self, deployment_ids: Collection[str], topics: Collection[str]) -> "ResourceNames":
        """Return only the resources of the given deployments and the given topics."""

        def with_deployment_id(names: Iterable[str]) -> frozenset[str]:
            return frozenset(name for name in names if deployment_id_of(name) in deployment_ids)

        return ResourceNames(
            topics=self.topics & frozenset(topics),
            users=with_deployment_id(self.users),
            groups=with_deployment_id(self.groups),
            external_groups=with_deployment_id(self.external_groups),
            subscriptions=with_deployment_id(self.subscriptions),
            running_deployment_ids=self.running_deployment_ids & frozenset(deployment_ids),
        )


@dataclass(frozen=True, slots=True)
class ExistingResources:
    """All resources that currently exist, also of other programs.

    Attributes:
        inventory: The resources on the installation's own Kafka cluster.
        external_groups: The consumer groups of the other Kafka clusters in the stream bindings, and whether each has
            members.
        subscriptions: Pub/Sub subscriptions.
        running_deployment_ids: The ids of the deployments that have workers, or of which something is left.
    """

    inventory: Inventory
    external_groups: Mapping[str, bool] = field(default_factory=dict)
    subscriptions: frozenset[str] = frozenset()
    running_deployment_ids: frozenset[str] = frozenset()

    @property
    def names(self) -> ResourceNames:
        """The names of the resources whose names have Headwater's form, by kind."""
        return ResourceNames(
            topics=frozenset(filter(config_id_of, self.inventory.topics)),
            users=frozenset(filter(deployment_id_of, self.inventory.users | self.inventory.users_with_acls)),
            groups=frozenset(filter(deployment_id_of, self.inventory.groups)),
            external_groups=frozenset(filter(deployment_id_of, self.external_groups)),
            subscriptions=frozenset(filter(deployment_id_of, self.subscriptions)),
            running_deployment_ids=self.running_deployment_ids,
        )

    @property
    def busy_groups(self) -> frozenset[str]:
        """The consumer groups that have members, of all Kafka clusters."""
        return self.inventory.busy_groups.union(group for group, is_busy in self.external_groups.items() if is_busy)
