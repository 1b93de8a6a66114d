"""Compares the resources on the broker and the running workers with the database: pure functions.

Resources of deployments that the database records as ended are removed. Resources that the database does not record
are never removed automatically: the database may be a restored backup that is older than the deployment, or the
cluster may be shared with another installation. `headwater sweep` lists them; they are removed once an operator has
confirmed them, which records them as ended.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields

from headwater.brokers.base import Inventory

MAX_UNKNOWN_DEPLOYMENTS = 5
"""With more unknown deployments than this, the database counts as older than the broker, as after a restore.

Where the operator manages the users of Kafka, no rule tells which topics an unknown deployment uses: one is too many.
"""

_OF_DEPLOYMENT = re.compile(r"^(?:dep|wrk)-([0-9a-z]{26})(?:\.|$)")
_OF_FLOW = re.compile(r"^flow\.([0-9a-z]{26})\.")


def deployment_of(name: str) -> str | None:
    """The deployment that a user, a consumer group or a subscription belongs to; None for names of another form."""
    match = _OF_DEPLOYMENT.match(name)
    return match[1] if match else None


def flow_of(topic: str) -> str | None:
    """The configuration that a topic belongs to; None for names of another form."""
    match = _OF_FLOW.match(topic)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """Names of resources of deployments, by kind.

    Attributes:
        topics: `flow.<configuration id>.<sink>`.
        users: SCRAM users, and users that only have access rules.
        groups: Consumer groups of the own cluster.
        elsewhere: Consumer groups of other clusters, and subscriptions of Pub/Sub.
        workers: Ids of deployments whose workers run.
    """

    topics: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return any(getattr(self, kind.name) for kind in fields(self))

    @property
    def deployments(self) -> frozenset[str]:
        """The ids of all deployments that these resources belong to; topics belong to configurations."""
        named = (deployment_of(name) for name in self.users | self.groups | self.elsewhere)
        return frozenset(found for found in named if found) | self.workers

    @property
    def flows(self) -> frozenset[str]:
        """The ids of the configurations that the topics belong to."""
        return frozenset(found for found in map(flow_of, self.topics) if found)

    def topics_by_flow(self) -> dict[str, set[str]]:
        """The topics by the id of the configuration that they are named after."""
        found: dict[str, set[str]] = {}
        for topic in self.topics:
            if flow_id := flow_of(topic):
                found.setdefault(flow_id, set()).add(topic)
        return found

    def where(self, deployments: Collection[str], topics: Collection[str]) -> "ResourceNames":
        """The part that belongs to some deployments, and some of the topics."""

        def of(names: Iterable[str]) -> frozenset[str]:
            return frozenset(name for name in names if deployment_of(name) in deployments)

        return ResourceNames(
            topics=self.topics & frozenset(topics),
            users=of(self.users),
            groups=of(self.groups),
            elsewhere=of(self.elsewhere),
            workers=self.workers & frozenset(deployments),
        )


@dataclass(frozen=True, slots=True)
class Found:
    """All resources with names of Headwater's form that exist now."""

    inventory: Inventory
    elsewhere: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()

    @property
    def names(self) -> ResourceNames:
        """The names of all resources, by kind."""
        return ResourceNames(
            topics=frozenset(topic for topic in self.inventory.topics if flow_of(topic)),
            users=frozenset(filter(deployment_of, self.inventory.users | self.inventory.rule_users)),
            groups=frozenset(filter(deployment_of, self.inventory.groups)),
            elsewhere=frozenset(filter(deployment_of, self.elsewhere)),
            workers=self.workers,
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """The deployments and configurations of the resources, by their state in the database.

    Attributes:
        active: Ids of deployments that have not ended.
        ended: Ids of deployments that have ended, or that an operator gave up.
        deployed: Ids of configurations with an active deployment.
        undeployed: Ids of configurations whose deployments have all ended, or that an operator gave up.
        torn_down: The only topics that may be removed, where the operator manages Kafka; None for all of `undeployed`.
    """

    active: frozenset[str]
    ended: frozenset[str]
    deployed: frozenset[str]
    undeployed: frozenset[str]
    torn_down: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Classified:
    """Resources to remove, which the database records as ended, and unknown ones, which wait for an operator."""

    removable: ResourceNames = field(default_factory=ResourceNames)
    unknown: ResourceNames = field(default_factory=ResourceNames)


def classify(found: Found, recorded: Recorded) -> Classified:
    """Classify resources as removable or unknown; active ones are neither.

    Users, rules, groups, subscriptions and workers follow their deployment. A topic follows its configuration: when the
    deployments of that have all ended, its topics go, except while a user of an unknown deployment has a rule on the
    topic, and except while there are more than MAX_UNKNOWN_DEPLOYMENTS unknown deployments. Both mean that the
    configuration was deployed again without this database.

    Where the operator manages Kafka, no rules are listed, and the name of a topic alone proves nothing: only topics
    that the database records as written by ended deployments go, and only while there is no unknown deployment.
    """
    everything = found.names
    unknown = everything.deployments - recorded.active - recorded.ended
    undeployed = {topic for topic in everything.topics if flow_of(topic) in recorded.undeployed - recorded.deployed}
    waiting = undeployed & _read_or_written_by(unknown, found.inventory)
    if recorded.torn_down is not None:
        waiting |= undeployed - recorded.torn_down
    if len(unknown) > (MAX_UNKNOWN_DEPLOYMENTS if found.inventory.lists_users else 0):
        waiting = undeployed
    strangers = {t for t in everything.topics if flow_of(t) not in recorded.undeployed | recorded.deployed}
    return Classified(
        removable=everything.where(recorded.ended, undeployed - waiting),
        unknown=everything.where(unknown, strangers | waiting),
    )


def _read_or_written_by(deployments: Collection[str], inventory: Inventory) -> set[str]:
    """The topics that rules of these deployments' users name."""
    return {topic for user, topics in inventory.rules.items() if deployment_of(user) in deployments for topic in topics}


def running_elsewhere(found: Found, unknown: ResourceNames) -> frozenset[str]:
    """Unknown deployments whose workers read now: another installation on the same cluster has them."""
    busy = {name for name in found.inventory.busy_groups if name.startswith("wrk-")}
    return unknown.deployments & frozenset(filter(None, map(deployment_of, busy)))


def belonging(ids: Collection[str], found: Found, unknown: ResourceNames) -> frozenset[str]:
    """The unknown deployments and configurations among these ids, with those that share a topic with them."""
    return frozenset(_belonging(frozenset(ids), found.inventory, unknown))


def _belonging(ids: frozenset[str], inventory: Inventory, unknown: ResourceNames) -> Iterator[str]:
    yield from ids & (unknown.deployments | unknown.flows)
    for user, topics in inventory.rules.items():
        deployment = deployment_of(user)
        flows = {flow_of(topic) for topic in topics & unknown.topics}
        if deployment in unknown.deployments and (deployment in ids or flows & ids):
            yield from filter(None, {deployment, *flows})
