"""In-memory implementations of ClusterAdmin and Subscriptions, for tests."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headwater.brokers import base
from headwater.brokers.base import Acl, DeploymentResources, Inventory, TopicOffsets, TopicSpec
from headwater.errors import BrokerUnavailable, BrokerUnsuitable


class MemoryClusterAdmin:
    """Implements base.ClusterAdmin, and passes its contract tests.

    Tests may read its attributes.

    Attributes:
        away: While this is true, every call raises BrokerUnavailable.
        logs: The timestamps of the records in milliseconds, by topic and partition.
        commits: The committed offsets by group, and by topic and partition.
        members: How many consumers each group has now.
        in_transaction: The groups of which an open transaction contains offsets.
        topic_ids: The ids of topics that were created again.
        starts: The first offset of a partition whose first records were removed, by topic and partition.
    """

    def __init__(self, *, manages_users: bool = True) -> None:
        self.away = False
        self.manages_users = manages_users
        self.topics: dict[str, TopicSpec] = {}
        self.users: dict[str, str] = {}
        self.acls: set[Acl] = set()
        self.logs: dict[str, list[list[int]]] = {}
        self.commits: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.members: Counter[str] = Counter()
        self.in_transaction: set[str] = set()
        self.topic_ids: dict[str, str] = {}
        self.starts: dict[tuple[str, int], int] = {}
        self._committed_topic_ids: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()

    def ensure(self, desired: DeploymentResources) -> None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            for topic in desired.topics:
                self.topics.setdefault(topic.name, topic)
                log = self.logs.setdefault(topic.name, [])
                log += [[] for _ in range(topic.partitions - len(log))]
            if self.manages_users:
                self.users |= {user.name: user.password for user in desired.users}
                self.acls |= set(desired.acls)

    def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            for name in settings.keys() & self.topics.keys():
                topic = self.topics[name]
                self.topics[name] = replace(topic, config=topic.config | dict(settings[name]))

    def remove_stale(self, desired: DeploymentResources, removed_topics: Sequence[str]) -> None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            users = {user.name for user in desired.users} if self.manages_users else set()
            self.acls = {acl for acl in self.acls if acl.user not in users or acl in desired.acls}
            for topic in removed_topics:
                self.topics.pop(topic, None)
                self.logs.pop(topic, None)

    def ping(self, topic: str) -> None:
        """See base.ClusterAdmin."""
        self.partition_count(topic)

    def partition_count(self, topic: str) -> int | None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            return len(self.logs[topic]) if topic in self.logs else None

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int | None]:
        """See base.ClusterAdmin."""
        with self._lock:
            return {} if self.away else {topic: self.partition_count(topic) for topic in topics}

    def commit_start_offsets(self, group: str, topic: str, start_at: str) -> dict[int, int]:
        """See base.ClusterAdmin."""
        with self._lock:
            count = self.partition_count(topic)
            if count is None:
                raise BrokerUnavailable(f"The topic {topic} does not exist: create it.")
            commits = self.commits.get(group, {})
            committed = {number: commits[topic, number] for number in range(count) if (topic, number) in commits}
            missing = [number for number in range(count) if number not in committed]
            if missing and self.members[group]:
                raise BrokerUnavailable(base.group_has_members_message(group))
            start = "earliest" if committed else start_at
            starts = {number: self._offset(topic, number, start) for number in missing}
            if starts:
                self._commit(group, topic, TopicOffsets(self._topic_id(topic), starts))
            return committed | starts

    def committed_offsets(self, group: str, topic: str) -> TopicOffsets | None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            if group in self.in_transaction:
                raise BrokerUnavailable("An open transaction contains offsets of the group.")
            commits = self.commits.get(group, {})
            offsets = {number: offset for (name, number), offset in sorted(commits.items()) if name == topic}
            if not offsets or topic not in self.logs:
                return None
            return TopicOffsets(self._committed_topic_ids.get((group, topic), self._topic_id(topic)), offsets)

    def topic_offsets(self, topic: str, position: str) -> TopicOffsets | None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            if topic not in self.logs:
                return None
            offsets = {number: self._offset(topic, number, position) for number in range(len(self.logs[topic]))}
            return TopicOffsets(self._topic_id(topic), offsets)

    def commit_offsets(self, group: str, topic: str, positions: TopicOffsets) -> None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            if positions.offsets and self.members[group]:
                raise BrokerUnavailable(base.group_has_members_message(group))
            self._commit(group, topic, positions)

    def _commit(self, group: str, topic: str, positions: TopicOffsets) -> None:
        self.commits[group] |= {(topic, number): offset for number, offset in positions.offsets.items()}
        self._committed_topic_ids[group, topic] = positions.topic_id

    def _topic_id(self, topic: str) -> str:
        return self.topic_ids.get(topic, f"the first {topic}")

    def _offset(self, topic: str, number: int, position: str) -> int:
        return max(self.starts.get((topic, number), 0), _offset(self.logs[topic][number], position))

    def lag(self, groups: Collection[str]) -> Mapping[str, int]:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            lags: dict[str, int] = {}
            for group in groups:
                for (topic, number), offset in self.commits.get(group, {}).items():
                    if topic in self.logs:
                        lags[group] = lags.get(group, 0) + len(self.logs[topic][number]) - offset
            return lags

    def remove_all(self, resources: DeploymentResources) -> None:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            users = {user.name for user in resources.users} | {acl.user for acl in resources.acls}
            users = users if self.manages_users else set()
            self.acls = {acl for acl in self.acls if acl.user not in users}
            self.users = {name: password for name, password in self.users.items() if name not in users}
            for topic in resources.topics:
                self.topics.pop(topic.name, None)
                self.logs.pop(topic.name, None)

    def delete_groups(self, prefixes: Sequence[str]) -> bool:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            groups = [group for group in self._groups() if group.startswith(tuple(prefixes))]
            for group in groups:
                if not self.members[group]:
                    self.commits.pop(group, None)
            return not any(self.members[group] for group in groups)

    def groups(self) -> Mapping[str, bool]:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            return {group: self.members[group] > 0 for group in self._groups()}

    def inventory(self) -> Inventory:
        """See base.ClusterAdmin."""
        with self._lock:
            self._check()
            acls = self.acls if self.manages_users else set()
            topics_of: dict[str, set[str]] = {acl.user: set() for acl in acls}
            for acl in acls:
                if acl.resource == "topic":
                    topics_of[acl.user].add(acl.name)
            return Inventory(
                topics=frozenset(self.topics),
                users=frozenset(self.users if self.manages_users else ()),
                topics_in_acls_by_user={user: frozenset(topics) for user, topics in topics_of.items()},
                groups=frozenset(self._groups()),
                busy_groups=frozenset(+self.members),
                has_users_and_acls=self.manages_users,
            )

    def append(self, topic: str, partition: int, timestamp_ms: int) -> None:
        """Add a record to a topic, which `commit_start_offsets` and `lag` take into account."""
        with self._lock:
            self.logs[topic][partition].append(timestamp_ms)

    def _groups(self) -> set[str]:
        return {group for group, commits in self.commits.items() if commits} | set(+self.members)

    def _check(self) -> None:
        if self.away:
            raise BrokerUnavailable(
                "Kafka at memory does not answer: check that it runs, and that the address and the security protocol "
                "are right."
            )


def _offset(timestamps: Sequence[int], start_at: str) -> int:
    match start_at:
        case "earliest":
            return 0
        case "latest":
            return len(timestamps)
        case _:
            first_ms = base.start_at_ms(start_at)
            return next((i for i, stamp in enumerate(timestamps) if stamp >= first_ms), len(timestamps))


class MemorySubscriptions:
    """Implements base.Subscriptions, and passes its contract tests.

    Tests may read its attributes.

    Attributes:
        away: While this is true, every call raises BrokerUnavailable.
        topics: For each topic, whether it retains messages.
        made: The topic and the start of each subscription, by name.
        foreign: The names of subscriptions that Headwater did not create.
        positions: The position of each subscription at its start or after its last seek, by name.
    """

    def __init__(self, project: str = "project") -> None:
        self.away = False
        self.topics: dict[str, bool] = {}
        self.made: dict[str, tuple[str, str]] = {}
        self.foreign: set[str] = set()
        self.positions: dict[str, str] = {}
        self._project = project

    def path(self, name: str) -> str:
        """See base.Subscriptions."""
        return f"projects/{self._project}/subscriptions/{name}"

    def ensure(self, name: str, topic: str, start_at: str) -> None:
        """See base.Subscriptions."""
        self._check()
        if name in self.made:
            if self.made[name][0] != topic:
                raise BrokerUnsuitable(f"The subscription {self.path(name)} belongs to the topic of another stream.")
            return
        if topic not in self.topics:
            raise BrokerUnsuitable(f"Google Pub/Sub has no {topic}.")
        if start_at != "latest" and not self.topics[topic]:
            raise BrokerUnsuitable(f"The topic {topic} keeps no messages that are older than a new subscription.")
        self.made[name] = (topic, start_at)
        self.positions[name] = start_at

    def seek(self, path: str, position: str) -> None:
        """See base.Subscriptions."""
        self.require_exists(path)
        name = path.rpartition("/")[2]
        topic = self.made[name][0] if name in self.made else ""
        if position != "latest" and not self.topics.get(topic, False):
            raise BrokerUnsuitable(f"The topic {topic} keeps no messages that are older than a new subscription.")
        self.positions[name] = position

    def require_exists(self, path: str) -> None:
        """See base.Subscriptions."""
        self._check()
        if path.rpartition("/")[2] not in self.names():
            raise BrokerUnsuitable(f"Google Pub/Sub has no {path}.")

    def delete(self, names: Collection[str]) -> None:
        """See base.Subscriptions."""
        self._check()
        for name in names:
            self.made.pop(name, None)
            self.positions.pop(name, None)

    def names(self) -> frozenset[str]:
        """See base.Subscriptions."""
        self._check()
        return frozenset(self.made) | self.foreign

    def _check(self) -> None:
        if self.away:
            raise BrokerUnavailable("Google Pub/Sub does not answer.")
