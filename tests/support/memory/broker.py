"""A broker in memory: the twin of brokers/kafka.py for tests."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headwater.brokers import base
from headwater.brokers.base import AccessRule, Inventory, Resources, TopicSpec
from headwater.errors import BrokerUnavailable, DeployFailed


class MemoryBroker:
    """Passes the contract suite of base.Broker. Its state may be read; while `away` is true every call fails.

    logs: the records' timestamps (ms) by topic and partition. commits: next offsets by group, topic and partition.
    members: how many consumers each group has now.
    """

    def __init__(self, *, manages_users: bool = True) -> None:
        self.away = False
        self.manages_users = manages_users
        self.topics: dict[str, TopicSpec] = {}
        self.users: dict[str, str] = {}
        self.rules: set[AccessRule] = set()
        self.logs: dict[str, list[list[int]]] = {}
        self.commits: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.members: Counter[str] = Counter()
        self._lock = threading.RLock()

    def ensure(self, wanted: Resources) -> None:
        """See base.Broker."""
        with self._lock:
            self._check()
            for topic in wanted.topics:
                self.topics.setdefault(topic.name, topic)
                log = self.logs.setdefault(topic.name, [])
                log += [[] for _ in range(topic.partitions - len(log))]
            if self.manages_users:
                self.users |= {user.name: user.password for user in wanted.users}
                self.rules |= set(wanted.rules)

    def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """See base.Broker."""
        with self._lock:
            self._check()
            for name in settings.keys() & self.topics.keys():
                topic = self.topics[name]
                self.topics[name] = replace(topic, config=topic.config | dict(settings[name]))

    def trim(self, wanted: Resources, gone: Sequence[str]) -> None:
        """See base.Broker."""
        with self._lock:
            self._check()
            users = {user.name for user in wanted.users} if self.manages_users else set()
            self.rules = {rule for rule in self.rules if rule.user not in users or rule in wanted.rules}
            for topic in gone:
                self.topics.pop(topic, None)
                self.logs.pop(topic, None)

    def ping(self, topic: str) -> None:
        """See base.Broker."""
        self.partitions(topic)

    def partitions(self, topic: str) -> int | None:
        """See base.Broker."""
        with self._lock:
            self._check()
            return len(self.logs[topic]) if topic in self.logs else None

    def pin(self, group: str, topic: str, start_at: str) -> dict[int, int]:
        """See base.Broker."""
        with self._lock:
            count = self.partitions(topic)
            if count is None:
                raise BrokerUnavailable(f"The topic {topic} does not exist: create it.")
            commits = self.commits.get(group, {})
            committed = {number: commits[topic, number] for number in range(count) if (topic, number) in commits}
            missing = [number for number in range(count) if number not in committed]
            if missing and self.members[group]:
                raise BrokerUnavailable(f"The group {group} has members: stop them, then set its start positions.")
            start = "earliest" if committed else start_at
            starts = {number: _offset(self.logs[topic][number], start) for number in missing}
            if starts:
                self.commits[group] |= {(topic, number): offset for number, offset in starts.items()}
            return committed | starts

    def lag(self, groups: Collection[str]) -> Mapping[str, int]:
        """See base.Broker."""
        with self._lock:
            self._check()
            lags: dict[str, int] = {}
            for group in groups:
                for (topic, number), offset in self.commits.get(group, {}).items():
                    if topic in self.logs:
                        lags[group] = lags.get(group, 0) + len(self.logs[topic][number]) - offset
            return lags

    def drop(self, owned: Resources) -> None:
        """See base.Broker."""
        with self._lock:
            self._check()
            users = {user.name for user in owned.users} | {rule.user for rule in owned.rules}
            users = users if self.manages_users else set()
            self.rules = {rule for rule in self.rules if rule.user not in users}
            self.users = {name: password for name, password in self.users.items() if name not in users}
            for topic in owned.topics:
                self.topics.pop(topic.name, None)
                self.logs.pop(topic.name, None)

    def drop_groups(self, prefixes: Sequence[str]) -> bool:
        """See base.Broker."""
        with self._lock:
            self._check()
            groups = [group for group in self._groups() if group.startswith(tuple(prefixes))]
            for group in groups:
                if not self.members[group]:
                    self.commits.pop(group, None)
            return not any(self.members[group] for group in groups)

    def groups(self) -> frozenset[str]:
        """See base.Broker."""
        with self._lock:
            self._check()
            return frozenset(self._groups())

    def inventory(self) -> Inventory:
        """See base.Broker."""
        with self._lock:
            self._check()
            rules = self.rules if self.manages_users else set()
            topics_of: dict[str, set[str]] = {rule.user: set() for rule in rules}
            for rule in rules:
                if rule.resource == "topic":
                    topics_of[rule.user].add(rule.name)
            return Inventory(
                topics=frozenset(self.topics),
                users=frozenset(self.users if self.manages_users else ()),
                rules={user: frozenset(topics) for user, topics in topics_of.items()},
                groups=frozenset(self._groups()),
                busy_groups=frozenset(+self.members),
                lists_users=self.manages_users,
            )

    def append(self, topic: str, partition: int, timestamp_ms: int) -> None:
        """Put a record on a topic, for `pin` to find."""
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
            first_ms = base.start_time_ms(start_at)
            return next((i for i, stamp in enumerate(timestamps) if stamp >= first_ms), len(timestamps))


class MemorySubscriptions:
    """Passes the contract suite of base.Subscriptions. While `away` is true every call fails.

    topics: names → whether they keep messages. made: subscriptions by name, each with its topic and where it started.
    """

    def __init__(self, project: str = "project") -> None:
        self.away = False
        self.topics: dict[str, bool] = {}
        self.made: dict[str, tuple[str, str]] = {}
        self.foreign: set[str] = set()
        self._project = project

    def path(self, name: str) -> str:
        """See base.Subscriptions."""
        return f"projects/{self._project}/subscriptions/{name}"

    def ensure(self, name: str, topic: str, start_at: str) -> None:
        """See base.Subscriptions."""
        self._check()
        if topic not in self.topics:
            raise DeployFailed(f"Google Pub/Sub has no {topic}.")
        if start_at != "latest" and not self.topics[topic]:
            raise DeployFailed(f"The topic {topic} keeps no messages from before a subscription.")
        if self.made.setdefault(name, (topic, start_at))[0] != topic:
            raise DeployFailed(f"The subscription {self.path(name)} is to another topic.")

    def require(self, path: str) -> None:
        """See base.Subscriptions."""
        self._check()
        if path.rpartition("/")[2] not in self.names():
            raise DeployFailed(f"Google Pub/Sub has no {path}.")

    def drop(self, names: Collection[str]) -> None:
        """See base.Subscriptions."""
        self._check()
        for name in names:
            self.made.pop(name, None)

    def names(self) -> frozenset[str]:
        """See base.Subscriptions."""
        self._check()
        return frozenset(self.made) | self.foreign

    def _check(self) -> None:
        if self.away:
            raise BrokerUnavailable("Google Pub/Sub does not answer.")
