"""Decides which existing resources are removed, by pure functions.

Resources of deployments that the database records as ended are removed. Resources that the database does not record are
never removed automatically: the database may be a restored backup that is older than the deployment, or the cluster may
be shared with another installation. `headwater sweep` lists these unknown resources. When an operator confirms them,
their deployments are recorded as ended, and the resources are removed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from headwater.brokers.base import Inventory
from headwater.controller.recorded_state import RecordedState
from headwater.controller.resource_names import ExistingResources, ResourceNames, config_id_of, deployment_id_of

MAX_UNKNOWN_DEPLOYMENTS = 5
"""With more unknown deployments than this, the database counts as older than Kafka's state, as after a restore.

When the operator manages the Kafka users, there are no ACLs that show which topics an unknown deployment uses.
Then one unknown deployment is enough.
"""


@dataclass(frozen=True, slots=True)
class ClassifiedResources:
    """The existing resources that no active deployment uses.

    Attributes:
        removable: Resources that the database records as ended.
        unknown: Resources that the database does not record, and topics of ended deployments that an unknown deployment
            may use. An operator must confirm their removal.
    """

    removable: ResourceNames = field(default_factory=ResourceNames)
    unknown: ResourceNames = field(default_factory=ResourceNames)


def classify(existing: ExistingResources, recorded: RecordedState) -> ClassifiedResources:
    """Classify resources as removable or unknown; active ones are neither.

    Users, ACLs, groups, subscriptions and workers are removed with their deployment. A topic is removed when
    all deployments of its configuration have ended. It is kept while a user of an unknown deployment has an ACL
    for it, and while there are more than MAX_UNKNOWN_DEPLOYMENTS unknown deployments. Both suggest that another
    database, which is newer than this one, has deployed the configuration again.

    When the operator manages the Kafka users, no ACLs are listed, and the name of a topic proves nothing. Then
    only topics that the database records as written by ended deployments are removed, and only while there is no
    unknown deployment.
    """
    names = existing.names
    unknown_ids = names.deployment_ids - recorded.active_deployments - recorded.ended_deployments
    unused_topics = {topic for topic in names.topics if config_id_of(topic) in recorded.unused_configurations}
    has_acls = existing.inventory.has_users_and_acls
    if len(unknown_ids) > (MAX_UNKNOWN_DEPLOYMENTS if has_acls else 0):
        unconfirmed_topics = unused_topics
    elif has_acls:
        unconfirmed_topics = unused_topics & _topics_in_acls_of(unknown_ids, existing.inventory)
    else:
        unconfirmed_topics = unused_topics - recorded.obsolete_topics
    unrecorded_topics = {topic for topic in names.topics if config_id_of(topic) not in recorded.recorded_configurations}
    return ClassifiedResources(
        removable=names.restricted_to(recorded.ended_deployments, unused_topics - unconfirmed_topics),
        unknown=names.restricted_to(unknown_ids, unrecorded_topics | unconfirmed_topics),
    )


def _topics_in_acls_of(deployment_ids: Collection[str], inventory: Inventory) -> set[str]:
    """Return the topics in the ACLs of these deployments' users."""
    return {
        topic
        for user, topics in inventory.topics_in_acls_by_user.items()
        if deployment_id_of(user) in deployment_ids
        for topic in topics
    }


def active_unknown_deployments(existing: ExistingResources, unknown: ResourceNames) -> frozenset[str]:
    """Return the unknown deployments whose workers' consumer groups have members now.

    Another installation probably runs them. Workers that read Pub/Sub, or a Kafka cluster that is not in the stream
    bindings, have no group here, so their deployments are missing.
    """
    worker_groups = (group for group in existing.busy_groups if group.startswith("wrk-"))
    return unknown.deployment_ids & frozenset(filter(None, map(deployment_id_of, worker_groups)))


def connected_ids(ids: Collection[str], existing: ExistingResources, unknown: ResourceNames) -> frozenset[str]:
    """Return the unknown deployments and configurations among these ids.

    The unknown deployments and configurations that an ACL connects with these are returned, too. An ACL of a
    deployment's user for a topic connects the deployment with the topic's configuration.
    """
    return frozenset(_connected_ids(frozenset(ids), existing.inventory, unknown))


def _connected_ids(ids: frozenset[str], inventory: Inventory, unknown: ResourceNames) -> Iterator[str]:
    yield from ids & (unknown.deployment_ids | unknown.config_ids)
    for user, topics in inventory.topics_in_acls_by_user.items():
        deployment_id = deployment_id_of(user)
        config_ids = {config_id_of(topic) for topic in topics & unknown.topics}
        if deployment_id in unknown.deployment_ids and (deployment_id in ids or config_ids & ids):
            yield from filter(None, {deployment_id, *config_ids})
