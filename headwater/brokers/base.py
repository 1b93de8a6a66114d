"""The protocols by which the controller manages Kafka clusters and Pub/Sub subscriptions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Protocol

OUTPUT_TOPIC_CONFIG: Final = {
    "retention.ms": str(7 * 24 * 3600 * 1000),
    "retention.bytes": str(1 << 30),
    # Kafka deletes whole segments only, so segments must be small and short-lived for the two limits above to take
    # effect.
    "segment.bytes": str(128 << 20),
    "segment.ms": str(24 * 3600 * 1000),
    "max.message.bytes": "1048588",
}
"""Settings of sink and dead-letter topics. KafkaClusterAdmin adds `min.insync.replicas`, which depends on the
replication factor."""

STREAM_TOPIC_CONFIG: Final = OUTPUT_TOPIC_CONFIG | {"message.timestamp.type": "LogAppendTime"}
"""Settings of stream topics: Kafka sets the timestamps of records to the time at which they arrive."""

TICKS_TOPIC_CONFIG: Final = OUTPUT_TOPIC_CONFIG | {"retention.bytes": str(4 << 30)}
"""Settings of the topic that all price pipelines write to."""

INGEST_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "max.message.bytes": "1048588",
    # Each step of an ingest appends a position, and Kafka never compacts the active segment, so an ingest reads about
    # this many bytes when it starts.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Settings of the topic that holds the position of each ingest."""

ACK_DEADLINE_S: Final = 20
"""Pub/Sub delivers a message again this long after its deadline was last extended. A live worker extends it. Pub/Sub
allows 10 to 600."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def start_at_ms(start_at: str) -> int:
    """Return an RFC 3339 time in milliseconds since the epoch, rounded up. Raises ValueError."""
    return -((_EPOCH - datetime.fromisoformat(start_at)) // timedelta(milliseconds=1))


def group_has_members_message(group: str) -> str:
    """Return the message for a group whose offsets can't be committed, because it has members."""
    return (
        f"The consumer group {group} has members, so its offsets can't be set. Stop its consumers. The controller "
        "repeats the request until it succeeds."
    )


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The desired state of a topic.

    Attributes:
        name: The name of the topic.
        partitions: The number of partitions.
        config: Settings of Kafka for the topic, by name.
    """

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class User:
    """The desired state of a SCRAM user."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Acl:
    """The right of a user to do some operations on a resource.

    Kafka stores one ACL binding for each operation.

    Attributes:
        user: The name of the user.
        resource: The type of the resource.
        name: The name of the resource.
        operations: The operations by Kafka's names: "READ", "WRITE", "DESCRIBE", …
        prefixed: Whether `name` is a prefix, so that the ACL concerns all resources whose names begin with `name`.
    """

    user: str
    resource: Literal["topic", "group", "transactional_id"]
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentResources:
    """Resources on the cluster that a call of ClusterAdmin creates or removes.

    They may be only a part of the resources of a deployment. Consumer groups are deleted with
    `ClusterAdmin.delete_groups`.

    Attributes:
        topics: The topics.
        users: The SCRAM users.
        acls: The ACLs of the users.
    """

    topics: tuple[TopicSpec, ...]
    users: tuple[User, ...]
    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The names of the resources that are on the cluster now.

    Attributes:
        topics: All topics.
        users: All SCRAM users.
        topics_in_acls_by_user: Has an entry for each user with ACLs: the topics that the ACLs name, possibly
            none.
        groups: All consumer groups.
        busy_groups: The consumer groups that have members.
        has_users_and_acls: Whether `users` and `topics_in_acls_by_user` were read from the cluster. False means that
            they are empty because the operator of Kafka manages users and acls.
    """

    topics: frozenset[str]
    users: frozenset[str]
    topics_in_acls_by_user: Mapping[str, frozenset[str]]
    groups: frozenset[str]
    busy_groups: frozenset[str] = frozenset()
    has_users_and_acls: bool = True

    @property
    def users_with_acls(self) -> frozenset[str]:
        """The users that have ACLs. An ACL may name a user that does not exist."""
        return frozenset(self.topics_in_acls_by_user)


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Offsets of the partitions of a topic.

    Attributes:
        topic_id: The id of the topic (KIP-516); empty when the cluster has no topic ids.
        offsets: The offsets by partition; a partition may be missing.
    """

    topic_id: str
    offsets: Mapping[int, int]


class ClusterAdmin(Protocol):
    """Manages topics, users, ACLs and consumer groups of one Kafka cluster.

    All methods are idempotent and thread-safe, block for at most some seconds, and raise BrokerUnavailable. With
    `manages_users=False` an implementation ignores the users and ACLs of all arguments, because the operator of
    Kafka, a person, manages them. `brokers/cluster_admin.py` implements this protocol; the tests have an implementation
    in memory.
    """

    def ensure(self, desired: DeploymentResources) -> None:
        """Create the topics, users and ACLs that are missing.

        Return when every user can log in and sees its topics. The controller calls this on each deploy. Existing topics
        keep their settings, and get additional partitions when they have too few. Existing users get the given
        password. Raises BrokerUnsuitable when the cluster has fewer brokers than the replication factor, when it
        rejects the settings of a topic, or when it has no authorizer and therefore rejects ACLs.
        """

    def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Change some settings of existing topics, by topic and name of the setting.

        All other settings stay. A topic that does not exist is ignored. Raises BrokerUnsuitable when Kafka rejects the
        settings.
        """

    def remove_stale(self, desired: DeploymentResources, removed_topics: Sequence[str]) -> None:
        """Remove the users' undesired ACLs, then the topics in `removed_topics`."""

    def ping(self, topic: str) -> None:
        """Return when the cluster answers a request about a topic.

        An authorization error counts as an answer.
        """

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic, or None when the topic does not exist."""

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int | None]:
        """Return the numbers of partitions of distinct topics.

        The number of a topic that does not exist is None. A topic that the cluster does not describe now is left out,
        so nothing is returned in an outage.
        """

    def commit_start_offsets(self, group: str, topic: str, start_at: str) -> dict[int, int]:
        """Commit start offsets for the partitions that `group` has no commit for.

        Return all committed offsets. The controller calls this before the first worker of a group starts, while the
        group is empty. A partition that first appears after the group has commits starts at its first offset. The
        commit metadata contains the topic's id, if the cluster has topic ids. Raises BrokerUnavailable also when the
        topic does not exist, and when offsets must be committed while the group has members.

        Args:
            group: The consumer group.
            topic: The topic that the group reads.
            start_at: "latest", "earliest" or an RFC 3339 time: the first record with a timestamp at or after it.
        """

    def committed_offsets(self, group: str, topic: str) -> TopicOffsets | None:
        """Return the offsets that a group has committed for a topic, and the topic id in them.

        The caller ensures that the group has no members. Partitions without a commit are left out; returns None when
        there is no commit. A commit without a topic id belongs to the topic that exists now. Raises BrokerUnavailable
        also when an open transaction contains offsets of the group, and does not end within some seconds: its offsets
        would be missing from the result.
        """

    def topic_offsets(self, topic: str, position: str) -> TopicOffsets | None:
        """Return an offset of each partition of a topic; None when the topic does not exist.

        Args:
            topic: The topic.
            position: "earliest": the first offset of the log. "latest": its end, which is the last stable offset. An
                RFC 3339 time: the offset of the first record with a timestamp at or after it, otherwise the end.
        """

    def commit_offsets(self, group: str, topic: str, positions: TopicOffsets) -> None:
        """Commit offsets for a group, with the topic id as metadata.

        Raises BrokerUnavailable also when the group has members.
        """

    def lag(self, groups: Collection[str]) -> Mapping[str, int]:
        """Return the consumer lag of each group: end offset minus committed offset, in total.

        A group without committed offsets is not in the result. A partition without a committed offset does not count.
        Fails after two to four seconds, because an API response waits for it.
        """

    def remove_all(self, resources: DeploymentResources) -> None:
        """Remove all ACLs of the users, then the users, then the topics. Missing ones are ignored.

        A user that is named only by an ACL in `resources` is removed too, with all its ACLs.
        """

    def delete_groups(self, prefixes: Sequence[str]) -> bool:
        """Delete the empty consumer groups with these prefixes.

        Return False while one of these groups has members.
        """

    def inventory(self) -> Inventory:
        """Return the names of all resources on the cluster, to find those without a deployment.

        Users and ACLs are left out when the operator of Kafka manages them.
        """

    def groups(self) -> Mapping[str, bool]:
        """Return all consumer groups, and whether each has members.

        Needs fewer rights than `inventory`, so it also works on a cluster that Headwater does not manage.
        """


class Subscriptions(Protocol):
    """Manages the Pub/Sub subscriptions of one project, by their short names.

    All methods are idempotent and thread-safe, block for at most some seconds, and raise BrokerUnavailable, or
    BrokerUnsuitable for errors that are not retriable. `brokers/pubsub_subscriptions.py` implements this protocol; the
    tests have an implementation in memory.
    """

    def path(self, name: str) -> str:
        """Return the resource name of a subscription: `projects/<project>/subscriptions/<name>`."""

    def ensure(self, name: str, topic: str, start_at: str) -> None:
        """Create a subscription that delivers the messages of a topic from `start_at` on.

        The messages are in order per ordering key. The controller calls this before a worker reads the subscription.
        An existing subscription stays at its position, unless an interrupted call has created it: then this call moves
        it to `start_at`.

        Args:
            name: The short name of the subscription.
            topic: The full resource name of the topic.
            start_at: "latest" (messages that are published after the creation), "earliest" or an RFC 3339 time.
                "earliest" and a time reach back at most as far as the topic retains messages.
        """

    def seek(self, path: str, position: str) -> None:
        """Move a subscription to another position.

        Messages that were published at or after the position are delivered again, and earlier ones are not. Raises
        BrokerUnsuitable when the position is in the past and neither the topic nor the subscription keeps acknowledged
        messages.

        Args:
            path: The resource name of the subscription.
            position: "earliest" (as far back as messages are kept), "latest" (now) or an RFC 3339 time.
        """

    def require_exists(self, path: str) -> None:
        """Raise BrokerUnsuitable unless the subscription exists and Headwater may look it up."""

    def delete(self, names: Collection[str]) -> None:
        """Delete subscriptions. Missing ones are ignored."""

    def names(self) -> frozenset[str]:
        """Return all subscriptions of the project, to find those without a deployment."""
