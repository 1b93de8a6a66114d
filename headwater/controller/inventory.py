"""Compares the broker and the running workers with the database, by pure functions.

Resources of deployments that the database records as ended are removed. Resources that the database does not record are
never removed automatically: the database may be a restored backup that is older than the deployment, or the cluster may
be shared with another installation. `headwater sweep` lists them. An operator can confirm them, which records them as
ended; then they are removed.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields

from headwater.brokers.base import Inventory

MAX_UNKNOWN_DEPLOYMENTS = 5
"""With more unknown deployments than this, the database counts as older than the broker, as after a restore.

When the operator manages the Kafka users, there are no access rules that show which topics an unknown deployment uses.
Then one unknown deployment is enough.
"""

_OF_DEPLOYMENT = re.compile(r"^(?:dep|wrk)-([0-9a-z]{26})(?:\.|$)")
_OF_FLOW = re.compile(r"^flow\.([0-9a-z]{26})\.")


def deployment_of(name: str) -> str | None:
    """Return the deployment of a user, a consumer group or a subscription.

    Returns None for names of another form.
    """
    match = _OF_DEPLOYMENT.match(name)
    return match[1] if match else None


def flow_of(topic: str) -> str | None:
    """Return the configuration of a topic; None for names of another form."""
    match = _OF_FLOW.match(topic)
    return match[1] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """Names of resources of deployments, by kind.

    Attributes:
        topics: `flow.<configuration id>.<sink>`.
        users: SCRAM users, and users that only have access rules.
        groups: Consumer groups of the installation's own Kafka cluster.
        external: Consumer groups of other clusters, and Pub/Sub subscriptions.
        workers: Ids of deployments whose workers run.
    """

    topics: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    external: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return any(getattr(self, kind.name) for kind in fields(self))

    @property
    def deployments(self) -> frozenset[str]:
        """The ids of the deployments of these resources.

        Topics are not counted, as they belong to configurations.
        """
        named = (deployment_of(name) for name in self.users | self.groups | self.external)
        return frozenset(found for found in named if found) | self.workers

    @property
    def flows(self) -> frozenset[str]:
        """The ids of the configurations of the topics."""
        return frozenset(found for found in map(flow_of, self.topics) if found)

    def topics_by_flow(self) -> dict[str, set[str]]:
        """Return the topics by the id of their configuration."""
        found: dict[str, set[str]] = {}
        for topic in self.topics:
            if config_id := flow_of(topic):
                found.setdefault(config_id, set()).add(topic)
        return found

    def restricted_to(self, deployments: Collection[str], topics: Collection[str]) -> "ResourceNames":
        """Return the resources of some deployments, and those of the topics that are in `topics`."""

        def of(names: Iterable[str]) -> frozenset[str]:
            return frozenset(name for name in names if deployment_of(name) in deployments)

        return ResourceNames(
            topics=self.topics & frozenset(topics),
            users=of(self.users),
            groups=of(self.groups),
            external=of(self.external),
            workers=self.workers & frozenset(deployments),
        )


@dataclass(frozen=True, slots=True)
class ExistingResources:
    """All resources with names of Headwater's form that currently exist."""

    inventory: Inventory
    external: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()

    @property
    def names(self) -> ResourceNames:
        """The names of all resources, by kind."""
        return ResourceNames(
            topics=frozenset(topic for topic in self.inventory.topics if flow_of(topic)),
            users=frozenset(filter(deployment_of, self.inventory.users | self.inventory.rule_users)),
            groups=frozenset(filter(deployment_of, self.inventory.groups)),
            external=frozenset(filter(deployment_of, self.external)),
            workers=self.workers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedState:
    """The deployments and configurations of the resources, by their state in the database.

    Attributes:
        active: Ids of deployments that have not ended.
        ended: Ids of deployments that have ended, or that an operator has recorded as ended.
        deployed: Ids of configurations with an active deployment.
        undeployed: Ids of configurations whose deployments have all ended, or were recorded as ended.
        torn_down: When the operator manages the Kafka users, the only topics that may be removed; otherwise None.
    """

    active: frozenset[str]
    ended: frozenset[str]
    deployed: frozenset[str]
    undeployed: frozenset[str]
    torn_down: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Classified:
    """Resources to remove, and unknown resources.

    The database records the former as ended; an operator must confirm the latter.
    """

    removable: ResourceNames = field(default_factory=ResourceNames)
    unknown: ResourceNames = field(default_factory=ResourceNames)


def classify(found: ExistingResources, recorded: RecordedState) -> Classified:
    """Classify resources as removable or unknown; active ones are neither.

    Users, access rules, groups, subscriptions and workers are removed with their deployment. A topic is removed when
    all deployments of its configuration have ended. It is kept while a user of an unknown deployment has an access rule
    for it, and while there are more than MAX_UNKNOWN_DEPLOYMENTS unknown deployments. Both mean that the configuration
    was deployed again without this database.

    When the operator manages the Kafka users, no access rules are listed, and the name of a topic proves nothing. Then
    only topics that the database records as written by ended deployments are removed, and only while there is no
    unknown deployment.
    """
    everything = found.names
    unknown = everything.deployments - recorded.active - recorded.ended
    undeployed = {topic for topic in everything.topics if flow_of(topic) in recorded.undeployed - recorded.deployed}
    undecided = undeployed & _read_or_written_by(unknown, found.inventory)
    if recorded.torn_down is not None:
        undecided |= undeployed - recorded.torn_down
    if len(unknown) > (MAX_UNKNOWN_DEPLOYMENTS if found.inventory.has_users_and_rules else 0):
        undecided = undeployed
    unrecorded_topics = {t for t in everything.topics if flow_of(t) not in recorded.undeployed | recorded.deployed}
    return Classified(
        removable=everything.restricted_to(recorded.ended, undeployed - undecided),
        unknown=everything.restricted_to(unknown, unrecorded_topics | undecided),
    )


def _read_or_written_by(deployments: Collection[str], inventory: Inventory) -> set[str]:
    """Return the topics in the access rules of these deployments' users."""
    topics_by_user = inventory.topics_by_rule_user
    return {topic for user, topics in topics_by_user.items() if deployment_of(user) in deployments for topic in topics}


def active_unknown_deployments(found: ExistingResources, unknown: ResourceNames) -> frozenset[str]:
    """Return the unknown deployments whose consumer groups have members now.

    Another installation on the same cluster probably runs them.
    """
    busy = {name for name in found.inventory.busy_groups if name.startswith("wrk-")}
    return unknown.deployments & frozenset(filter(None, map(deployment_of, busy)))


def connected_ids(ids: Collection[str], found: ExistingResources, unknown: ResourceNames) -> frozenset[str]:
    """Return the unknown deployments and configurations among these ids, and related ones.

    A deployment and a configuration are connected by an access rule for a topic.
    """
    return frozenset(_connected_ids(frozenset(ids), found.inventory, unknown))


def _connected_ids(ids: frozenset[str], inventory: Inventory, unknown: ResourceNames) -> Iterator[str]:
    yield from ids & (unknown.deployments | unknown.flows)
    for user, topics in inventory.topics_by_rule_user.items():
        deployment = deployment_of(user)
        flows = {flow_of(topic) for topic in topics & unknown.topics}
        if deployment in unknown.deployments and (deployment in ids or flows & ids):
            yield from filter(None, {deployment, *flows})
