"""Protocol of a broker: topics, users and access rules, as the controller needs them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Protocol

OUTPUT_TOPIC_CONFIG: Final = {
    "retention.ms": str(7 * 24 * 3600 * 1000),
    "retention.bytes": str(1 << 30),
    # Only whole segments are removed, so they are small and short enough for the two limits above to mean something.
    "segment.bytes": str(128 << 20),
    "segment.ms": str(24 * 3600 * 1000),
    "max.message.bytes": "1048588",
}
"""Settings of sink and dead-letter topics. A broker adds what depends on its number of copies."""

STREAM_TOPIC_CONFIG: Final = OUTPUT_TOPIC_CONFIG | {"message.timestamp.type": "LogAppendTime"}
"""Settings of stream topics: the broker stamps the time at which a record came."""

TICKS_TOPIC_CONFIG: Final = OUTPUT_TOPIC_CONFIG | {"retention.bytes": str(4 << 30)}
"""Settings of the topic that all price pipelines write to."""

INGEST_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "max.message.bytes": "1048588",
    # Every step adds a position, and the open segment is never compacted: a start reads about this much.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Settings of the topic that holds the position of each ingest."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def start_time_ms(start_at: str) -> int:
    """The first millisecond since the epoch at or after an RFC 3339 time. Raises ValueError."""
    return -((_EPOCH - datetime.fromisoformat(start_at)) // timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to have. config holds Kafka topic settings by name."""

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class User:
    """A SCRAM user to have."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What a user may do. operations are Kafka's: "READ", "WRITE", "DESCRIBE", …"""

    user: str
    resource: Literal["topic", "group", "transactional_id"]
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


@dataclass(frozen=True, slots=True)
class Resources:
    """All that one deployment owns on the broker. group_prefixes name the consumer groups that belong to it."""

    topics: tuple[TopicSpec, ...]
    users: tuple[User, ...]
    rules: tuple[AccessRule, ...]
    group_prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is on the broker now, by name.

    Attributes:
        topics: All topics.
        users: All SCRAM users.
        rules: By user, the topics that its rules name; a user whose rules name none has an empty set.
        groups: All consumer groups.
        busy_groups: The groups among `groups` that have members.
        lists_users: Whether users and rules were asked for; they are not where the operator manages them.
    """

    topics: frozenset[str]
    users: frozenset[str]
    rules: Mapping[str, frozenset[str]]
    groups: frozenset[str]
    busy_groups: frozenset[str] = frozenset()
    lists_users: bool = True

    @property
    def rule_users(self) -> frozenset[str]:
        """The users that have rules, whether or not they exist."""
        return frozenset(self.rules)


class Broker(Protocol):
    """Implementations: brokers/kafka.py, and one in memory for tests.

    All calls are idempotent, thread-safe, block on the broker for at most some seconds, and raise BrokerUnavailable.
    Where the operator manages the users of Kafka, an implementation is made with `manages_users=False`: it then neither
    makes, looks at nor removes users and access rules, whatever the resources of a call name.
    """

    def ensure(self, wanted: Resources) -> None:
        """Make topics, users and rules exist; return once every user could log in and sees its topics.

        Called by the controller on each deploy. Existing topics keep their settings, and get partitions when they
        have fewer; passwords are set again. Raises DeployFailed when the cluster can't hold so many copies, and when
        it has no authorizer and therefore takes no rules.
        """

    def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Change some settings of existing topics, by topic and name of the setting; all other settings stay.

        A topic that does not exist is no error.
        """

    def trim(self, wanted: Resources, gone: Sequence[str]) -> None:
        """Remove the rules of the wanted users that are not wanted, then the topics `gone`."""

    def ping(self, topic: str) -> None:
        """Return when the cluster answers a question about a topic, if only that the identity may not see it."""

    def partitions(self, topic: str) -> int | None:
        """The number of partitions, or None when the topic does not exist."""

    def pin(self, group: str, topic: str, start_at: str) -> dict[int, int]:
        """Commit start offsets for the partitions that `group` has no commit for; return all committed offsets.

        start_at: "latest", "earliest" or an RFC 3339 time (the first record stamped at or after it). Called before
        the first worker of a group starts, while the group is empty. A partition that first appears after the group
        has commits starts at its first offset. The topic's id goes with the offsets, where the cluster knows ids.
        Raises BrokerUnavailable also when the topic does not exist, and when partitions must be pinned while the
        group has members.
        """

    def lag(self, groups: Collection[str]) -> Mapping[str, int]:
        """By group, the offsets between what it has committed and the ends of its partitions; answers fast or fails.

        A group without commits is missing, as is a partition without one from its group's number.
        """

    def drop(self, owned: Resources) -> None:
        """Remove, in this order: rules, users, topics. What is not there is no error."""

    def drop_groups(self, prefixes: Sequence[str]) -> bool:
        """Delete the empty consumer groups with these prefixes. False while one still has members."""

    def inventory(self) -> Inventory:
        """Everything on the broker, without users and rules where the operator manages these. Called by the sweeper."""

    def groups(self) -> frozenset[str]:
        """All consumer groups. Needs fewer rights than `inventory`: also for a cluster that others manage."""


SUBSCRIPTION_LEASE_S: Final = 20
"""How long a silent worker keeps a message; live ones renew that. Pub/Sub takes 10 to 600."""


class Subscriptions(Protocol):
    """Subscriptions of Pub/Sub in one project, by their short names.

    Implementations: brokers/pubsub.py, and one in memory for tests. All calls are idempotent and thread-safe, block for
    at most some seconds, and raise BrokerUnavailable, or DeployFailed for what does not mend itself.
    """

    def path(self, name: str) -> str:
        """The whole name of a subscription of this project."""

    def ensure(self, name: str, topic: str, start_at: str) -> None:
        """Make a subscription that has all messages published after the return, in order per ordering key.

        start_at: "latest", "earliest" or an RFC 3339 time; the last two reach back as far as the topic keeps messages,
        and go back there again when the subscription was there already. Called before a worker reads it.
        """

    def require(self, path: str) -> None:
        """Raise DeployFailed when the subscription does not exist, or may not be looked at."""

    def drop(self, names: Collection[str]) -> None:
        """Remove subscriptions. What is not there is no error."""

    def names(self) -> frozenset[str]:
        """All subscriptions of the project. Called by the sweeper."""
