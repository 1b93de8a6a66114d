"""The contract of brokers.base.ClusterAdmin.

Names are unique, because all tests share the real broker.
"""

import contextlib
import copy
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
)

from headwater.brokers import cluster_admin
from headwater.brokers.base import (
    OUTPUT_TOPIC_CONFIG,
    Acl,
    ClusterAdmin,
    DeploymentResources,
    TopicOffsets,
    TopicSpec,
    User,
)
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.errors import BrokerUnavailable
from tests.support.kafka import KafkaServer
from tests.support.memory.broker import MemoryClusterAdmin

_ids = itertools.count(1)


class Bench(Protocol):
    """An implementation of ClusterAdmin, and the actions of its users."""

    @property
    def broker(self) -> ClusterAdmin:
        """The implementation."""

    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        """Append records to a topic."""

    def can_login(self, user: User) -> bool:
        """Return whether the broker accepts the user's password."""

    def member(self, group: str, topic: str) -> contextlib.AbstractContextManager[None]:
        """Run a consumer of the group until the end of the block."""

    def add_partition(self, topic: str, count: int) -> None:
        """Increase the number of partitions of a topic."""

    def acls(self, user: str) -> set[tuple[str, str]]:
        """Return the resources and names of the user's ACLs."""

    def settings(self, topic: str) -> dict[str, str]:
        """Return the settings of the topic that differ from the broker's."""

    def remove_first(self, topic: str, partition: int, before: int) -> None:
        """Remove the records of a partition before an offset, as retention does."""

    def recreate(self, topic: str) -> None:
        """Delete a topic, and create it again with the same partitions."""

    def transaction(self, group: str, topic: str, offset: int) -> contextlib.AbstractContextManager[None]:
        """Open a transaction that commits an offset of partition 0, until the end of the block."""

    def without_users(self) -> ClusterAdmin:
        """Return a ClusterAdmin for the same cluster with `manages_users=False`."""


class MemoryBench:
    def __init__(self) -> None:
        self.broker = MemoryClusterAdmin()

    def settings(self, topic: str) -> dict[str, str]:
        return self.broker.topics[topic].config

    def remove_first(self, topic: str, partition: int, before: int) -> None:
        self.broker.starts[topic, partition] = before

    def recreate(self, topic: str) -> None:
        self.broker.logs[topic] = [[] for _ in self.broker.logs[topic]]
        self.broker.topic_ids[topic] = "another id"

    @contextlib.contextmanager
    def transaction(self, group: str, topic: str, offset: int) -> Iterator[None]:
        self.broker.in_transaction.add(group)
        yield
        self.broker.in_transaction.discard(group)

    def without_users(self) -> ClusterAdmin:
        other = copy.copy(self.broker)
        other.manages_users = False
        return other

    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        for stamp in timestamps_ms:
            self.broker.append(topic, partition, stamp)

    def can_login(self, user: User) -> bool:
        return self.broker.users.get(user.name) == user.password

    @contextlib.contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        self.broker.members[group] += 1
        yield
        self.broker.members[group] -= 1

    def add_partition(self, topic: str, count: int) -> None:
        self.broker.logs[topic] += [[] for _ in range(count - len(self.broker.logs[topic]))]

    def acls(self, user: str) -> set[tuple[str, str]]:
        return {(acl.resource, acl.name) for acl in self.broker.acls if acl.user == user}


class KafkaBench:
    def __init__(self, kafka: KafkaServer) -> None:
        self._kafka = kafka
        self.broker = KafkaClusterAdmin(kafka.access)

    def settings(self, topic: str) -> dict[str, str]:
        asked = self._kafka.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        [described] = [future.result(30) for future in asked.values()]
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {name: entry.value for name, entry in described.items() if entry.source == own}

    def remove_first(self, topic: str, partition: int, before: int) -> None:
        self._kafka.truncate(topic, partition, before)

    def recreate(self, topic: str) -> None:
        self._kafka.recreate_topic(topic, self.broker.partition_count(topic) or 1)

    @contextlib.contextmanager
    def transaction(self, group: str, topic: str, offset: int) -> Iterator[None]:
        with self._kafka.consumer(group=group) as consumer:
            producer = Producer(self._kafka.plain_settings | {"transactional.id": f"open-{group}"})
            producer.init_transactions(30)
            producer.begin_transaction()
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, 30)
            yield
            producer.abort_transaction(30)

    def without_users(self) -> ClusterAdmin:
        return KafkaClusterAdmin(self._kafka.access, manages_users=False)

    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        for stamp in timestamps_ms:
            self._kafka.produce(topic, [b"{}"], partition=partition, timestamp_ms=stamp)

    def can_login(self, user: User) -> bool:
        access = self._kafka.user(user.name, user.password)
        errors = ClientErrors(access)
        client = AdminClient(admin_settings(access, errors))
        while True:
            try:
                client.list_topics(timeout=0.5)
            except KafkaException:
                client.poll(0)
                try:
                    errors.check()
                except BrokerUnavailable:
                    return False
            else:
                return True

    @contextlib.contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        with self._kafka.consumer(group=group) as consumer:
            consumer.subscribe([topic])
            while not consumer.assignment():
                consumer.poll(0.05)
            yield

    def add_partition(self, topic: str, count: int) -> None:
        self._kafka.grow(topic, count)

    def acls(self, user: str) -> set[tuple[str, str]]:
        client = AdminClient(admin_settings(self._kafka.access, ClientErrors(self._kafka.access)))
        anything: Any = None  # the type annotations lack that None is a wildcard
        found = client.describe_acls(
            AclBindingFilter(
                ResourceType.ANY,
                anything,
                ResourcePatternType.ANY,
                f"User:{user}",
                anything,
                AclOperation.ANY,
                AclPermissionType.ANY,
            )
        ).result()
        return {(acl.restype.name.lower(), acl.name) for acl in found}


@pytest.fixture(params=["memory", "kafka"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """The bench of each implementation."""
    if request.param == "memory":
        return MemoryBench()
    return KafkaBench(request.getfixturevalue("kafka"))


def deployment(name: str | None = None, partitions: int = 2, password: str = "secret") -> DeploymentResources:
    """Return the resources of one deployment, with unique names."""
    name = name or f"c{next(_ids)}"
    reader, worker, topic = f"dep-{name}", f"wrk-{name}", f"flow.{name}.out"
    return DeploymentResources(
        topics=(TopicSpec(topic, partitions, dict(OUTPUT_TOPIC_CONFIG)),),
        users=(User(reader, password), User(worker, password)),
        acls=(
            Acl(reader, "topic", topic, ("READ",)),
            Acl(reader, "group", f"{reader}.", ("READ",), prefixed=True),
            Acl(worker, "topic", topic, ("WRITE", "DESCRIBE")),
            Acl(worker, "transactional_id", f"{worker}.", ("WRITE", "DESCRIBE"), prefixed=True),
        ),
    )


def topic_of(owned: DeploymentResources) -> str:
    return owned.topics[0].name


class TestTrim:
    def test_only_stale_resources_are_removed(self, bench: Bench) -> None:
        old, other = deployment(), deployment()
        bench.broker.ensure(old)
        bench.broker.ensure(other)
        reader, topic = old.users[0].name, f"{topic_of(old)}.new"
        acls = (Acl(reader, "topic", topic, ("READ",)), *old.acls[1:])
        new = replace(old, topics=(TopicSpec(topic, 2, dict(OUTPUT_TOPIC_CONFIG)),), acls=acls)
        bench.broker.ensure(new)
        for _ in range(2):
            bench.broker.remove_stale(new, [topic_of(old)])
            assert bench.acls(reader) == {("topic", topic), ("group", f"{reader}.")}
            assert len(bench.acls(old.users[1].name)) == 2
            assert bench.broker.partition_count(topic_of(old)) is None
            assert bench.broker.partition_count(topic) == 2
        assert len(bench.acls(other.users[0].name)) == 2
        assert bench.broker.partition_count(topic_of(other)) == 2
        assert all(bench.can_login(user) for user in (*old.users, *other.users))


class TestEnsure:
    def test_all_resources_exist_when_ensure_returns(self, bench: Bench) -> None:
        wanted = deployment()
        bench.broker.ensure(wanted)
        found = bench.broker.inventory()
        assert topic_of(wanted) in found.topics
        assert {user.name for user in wanted.users} <= found.users & found.users_with_acls
        assert all(bench.can_login(user) for user in wanted.users)
        assert bench.broker.partition_count(topic_of(wanted)) == 2

    def test_a_second_ensure_changes_nothing(self, bench: Bench) -> None:
        wanted = deployment()
        bench.broker.ensure(wanted)
        bench.broker.ensure(wanted)
        assert bench.can_login(wanted.users[0])

    def test_an_existing_topic_keeps_its_records_and_gets_the_partitions_that_it_lacks(self, bench: Bench) -> None:
        wanted = deployment("kept", partitions=1)
        bench.broker.ensure(wanted)
        bench.append(topic_of(wanted), 0, [1_000])
        for partitions in (3, 2):
            bench.broker.ensure(deployment("kept", partitions=partitions))
            assert bench.broker.partition_count(topic_of(wanted)) == 3
        assert bench.broker.commit_start_offsets("kept", topic_of(wanted), "latest") == {0: 1, 1: 0, 2: 0}

    def test_passwords_are_set_again(self, bench: Bench) -> None:
        bench.broker.ensure(deployment("rotated", password="old"))
        bench.broker.ensure(deployment("rotated", password="new"))
        assert bench.can_login(User("dep-rotated", "new"))
        assert not bench.can_login(User("dep-rotated", "old"))

    def test_ensure_without_resources(self, bench: Bench) -> None:
        bench.broker.ensure(DeploymentResources((), (), ()))

    def test_many_threads_at_once(self, bench: Bench) -> None:
        wanted = [deployment(partitions=1) for _ in range(8)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(bench.broker.ensure, wanted * 2))
            assert {topic_of(each) for each in wanted} <= bench.broker.inventory().topics
            list(pool.map(bench.broker.remove_all, wanted * 2))
        assert not {topic_of(each) for each in wanted} & bench.broker.inventory().topics


def test_ping_with_a_missing_topic(bench: Bench) -> None:
    bench.broker.ping("no-such-topic")


def test_an_unknown_topic_has_no_partitions(bench: Bench) -> None:
    assert bench.broker.partition_count("no-such-topic") is None
    assert "no-such-topic" not in bench.broker.inventory().topics


def test_partitions_of_many_topics(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_admin, "DESCRIBED_AT_ONCE", 2)
    existing = [deployment(partitions=partitions) for partitions in (1, 2, 3)]
    for each in existing:
        bench.broker.ensure(each)
    names = [topic_of(each) for each in existing]
    assert bench.broker.partition_counts([*names, "no-such-topic"]) == {
        **dict(zip(names, (1, 2, 3), strict=True)),
        "no-such-topic": None,
    }
    assert bench.broker.partition_counts([]) == {}


class TestConfigure:
    def test_the_named_settings_of_existing_topics_change_and_all_others_stay(self, bench: Bench) -> None:
        owned, other = deployment(), deployment()
        bench.broker.ensure(owned)
        bench.broker.ensure(other)
        before = bench.settings(topic_of(owned))
        for _ in range(2):
            changed = {"retention.ms": "60000", "compression.type": "zstd", "cleanup.policy": "compact,delete"}
            bench.broker.configure({topic_of(owned): changed, "no-such-topic": changed})
            assert bench.settings(topic_of(owned)) == before | changed
        assert bench.settings(topic_of(other)) == before
        assert bench.broker.partition_count("no-such-topic") is None
        bench.broker.ensure(owned)
        assert bench.settings(topic_of(owned)) == before | changed

    def test_nothing_to_change(self, bench: Bench) -> None:
        bench.broker.configure({})
        bench.broker.configure({"no-such-topic": {}})


class TestUsersOfSomebodyElse:
    """The operator of Kafka manages its users, and Headwater manages only topics and groups."""

    def test_no_user_and_no_acl_is_created_changed_or_removed(self, bench: Bench) -> None:
        given, created = deployment(), deployment()
        broker = bench.without_users()
        bench.broker.ensure(created)
        broker.ensure(replace(given, users=(*given.users, User(created.users[0].name, "other"))))
        assert broker.partition_count(topic_of(given)) == 2
        assert not any(bench.acls(user.name) for user in given.users)
        assert not any(bench.can_login(user) for user in given.users)
        broker.remove_stale(replace(created, acls=()), [])
        broker.remove_all(created)
        assert broker.partition_count(topic_of(created)) is None
        assert all(bench.can_login(user) and len(bench.acls(user.name)) == 2 for user in created.users)

    def test_topics_are_removed(self, bench: Bench) -> None:
        old, new = deployment(), deployment()
        broker = bench.without_users()
        broker.ensure(old)
        broker.ensure(new)
        broker.remove_stale(new, [topic_of(old)])
        assert broker.partition_count(topic_of(old)) is None
        broker.remove_all(new)
        assert topic_of(new) not in broker.inventory().topics

    def test_the_inventory_has_no_users(self, bench: Bench) -> None:
        known = deployment()
        bench.broker.ensure(known)
        broker = bench.without_users()
        broker.commit_start_offsets(f"{known.users[0].name}.1", topic_of(known), "latest")
        found = broker.inventory()
        assert (found.users, found.topics_in_acls_by_user, found.has_users_and_acls) == (frozenset(), {}, False)
        assert topic_of(known) in found.topics
        assert f"{known.users[0].name}.1" in found.groups
        assert bench.broker.inventory().has_users_and_acls


class TestPin:
    @pytest.fixture
    def topic(self, bench: Bench) -> str:
        """Create a topic.

        Partition 0 has records with the timestamps 1 s, 2 s and 3 s, and partition 1 has none.
        """
        wanted = deployment()
        bench.broker.ensure(wanted)
        bench.append(topic_of(wanted), 0, [1_000, 2_000, 3_000])
        return topic_of(wanted)

    @pytest.mark.parametrize(
        ("start_at", "expected"),
        [
            ("earliest", 0),
            ("latest", 3),
            ("1970-01-01T00:00:02Z", 1),
            ("1970-01-01T00:00:02.0005Z", 2),
            ("1970-01-01T01:00:03+01:00", 2),
            ("1970-01-01T00:01:00Z", 3),
        ],
    )
    def test_start(self, bench: Bench, topic: str, start_at: str, expected: int) -> None:
        assert bench.broker.commit_start_offsets(f"group-{topic}", topic, start_at) == {0: expected, 1: 0}

    def test_committed_positions_stay(self, bench: Bench, topic: str) -> None:
        bench.broker.commit_start_offsets(f"group-{topic}", topic, "latest")
        bench.append(topic, 0, [4_000])
        assert bench.broker.commit_start_offsets(f"group-{topic}", topic, "latest") == {0: 3, 1: 0}
        assert f"group-{topic}" in bench.broker.inventory().groups

    def test_a_later_partition_starts_at_its_first_record(self, bench: Bench, topic: str) -> None:
        bench.broker.commit_start_offsets(f"group-{topic}", topic, "latest")
        bench.add_partition(topic, 3)
        bench.append(topic, 2, [1_000])
        assert bench.broker.commit_start_offsets(f"group-{topic}", topic, "latest") == {0: 3, 1: 0, 2: 0}

    def test_offsets_of_an_active_group_can_be_read_but_not_set(self, bench: Bench, topic: str) -> None:
        bench.broker.commit_start_offsets(f"pinned-{topic}", topic, "latest")
        with bench.member(f"pinned-{topic}", topic):
            assert bench.broker.commit_start_offsets(f"pinned-{topic}", topic, "latest") == {0: 3, 1: 0}
        with bench.member(f"free-{topic}", topic), pytest.raises(BrokerUnavailable, match="has members"):
            bench.broker.commit_start_offsets(f"free-{topic}", topic, "latest")

    def test_an_unknown_topic(self, bench: Bench) -> None:
        with pytest.raises(BrokerUnavailable, match="does not exist"):
            bench.broker.commit_start_offsets("group", "no-such-topic", "latest")


class TestOffsets:
    @pytest.fixture
    def topic(self, bench: Bench) -> str:
        """Create a topic with two partitions and three records in partition 0."""
        wanted = deployment()
        bench.broker.ensure(wanted)
        bench.append(topic_of(wanted), 0, [1_000, 2_000, 3_000])
        return topic_of(wanted)

    def test_offsets_are_committed_and_read(self, bench: Bench, topic: str) -> None:
        assert bench.broker.committed_offsets(f"group-{topic}", topic) is None
        bench.broker.commit_start_offsets(f"group-{topic}", topic, "latest")
        committed = bench.broker.committed_offsets(f"group-{topic}", topic)
        assert committed is not None
        assert committed.offsets == {0: 3, 1: 0}
        moved = TopicOffsets(committed.topic_id, {0: 1})
        bench.broker.commit_offsets(f"group-{topic}", topic, moved)
        assert bench.broker.committed_offsets(f"group-{topic}", topic) == replace(committed, offsets={0: 1, 1: 0})

    def test_nothing_to_commit(self, bench: Bench, topic: str) -> None:
        bench.broker.commit_offsets(f"group-{topic}", topic, TopicOffsets("", {}))
        assert bench.broker.committed_offsets(f"group-{topic}", topic) is None

    def test_the_ends_of_a_topic_and_a_time(self, bench: Bench, topic: str) -> None:
        bench.remove_first(topic, 0, before=1)
        expected = {"earliest": {0: 1, 1: 0}, "latest": {0: 3, 1: 0}, "1970-01-01T00:00:03Z": {0: 2, 1: 0}}
        for position, offsets in expected.items():
            found = bench.broker.topic_offsets(topic, position)
            assert found is not None
            assert found.offsets == offsets

    def test_a_missing_topic(self, bench: Bench) -> None:
        assert bench.broker.topic_offsets("no-such-topic", "latest") is None
        assert bench.broker.committed_offsets("no-such-group", "no-such-topic") is None

    def test_the_id_of_a_topic_that_was_created_again(self, bench: Bench, topic: str) -> None:
        bench.broker.commit_start_offsets(f"group-{topic}", topic, "latest")
        before = bench.broker.topic_offsets(topic, "latest")
        committed = bench.broker.committed_offsets(f"group-{topic}", topic)
        assert before is not None
        assert committed is not None
        assert committed.topic_id == before.topic_id != ""
        bench.recreate(topic)
        after = bench.broker.topic_offsets(topic, "latest")
        assert after is not None
        assert after.topic_id != before.topic_id
        bench.broker.commit_offsets(f"other-{topic}", topic, TopicOffsets(before.topic_id, {0: 3}))
        assert bench.broker.committed_offsets(f"other-{topic}", topic) == TopicOffsets(before.topic_id, {0: 3})

    def test_a_group_with_members(self, bench: Bench, topic: str) -> None:
        with bench.member(f"busy-{topic}", topic), pytest.raises(BrokerUnavailable, match="has members"):
            bench.broker.commit_offsets(f"busy-{topic}", topic, TopicOffsets("", {0: 1}))

    def test_an_open_transaction(self, bench: Bench, topic: str) -> None:
        group = f"group-{topic}"
        bench.broker.commit_start_offsets(group, topic, "latest")
        with bench.transaction(group, topic, offset=1), pytest.raises(BrokerUnavailable):
            bench.broker.committed_offsets(group, topic)
        committed = bench.broker.committed_offsets(group, topic)
        assert committed is not None
        assert committed.offsets == {0: 3, 1: 0}


class TestInventory:
    def test_the_topics_that_the_rules_of_a_user_name(self, bench: Bench) -> None:
        owned = deployment()
        bench.broker.ensure(owned)
        named = {
            user.name: {acl.name for acl in owned.acls if acl.user == user.name and acl.resource == "topic"}
            for user in owned.users
        }
        found = bench.broker.inventory()
        assert {user: found.topics_in_acls_by_user[user] for user in named} == named
        assert topic_of(owned) in {topic for topics in named.values() for topic in topics}


class TestDrop:
    def test_all_resources_are_removed(self, bench: Bench) -> None:
        owned = deployment()
        bench.broker.ensure(owned)
        bench.broker.remove_all(owned)
        found = bench.broker.inventory()
        assert topic_of(owned) not in found.topics
        assert not {user.name for user in owned.users} & (found.users | found.users_with_acls)
        assert not any(bench.can_login(user) for user in owned.users)

    def test_missing_resources_are_ignored(self, bench: Bench) -> None:
        owned = deployment()
        bench.broker.remove_all(owned)
        bench.broker.ensure(DeploymentResources(owned.topics, (), ()))
        bench.broker.remove_all(owned)
        bench.broker.remove_all(owned)
        assert topic_of(owned) not in bench.broker.inventory().topics

    def test_a_user_with_the_same_prefix_is_kept(self, bench: Bench) -> None:
        short, long = deployment("alike1"), deployment("alike10")
        bench.broker.ensure(short)
        bench.broker.ensure(long)
        bench.broker.remove_all(short)
        found = bench.broker.inventory()
        assert topic_of(long) in found.topics
        assert {"dep-alike10", "wrk-alike10"} <= found.users & found.users_with_acls
        assert bench.can_login(long.users[0])

    def test_resources_can_be_created_again(self, bench: Bench) -> None:
        owned = deployment()
        bench.broker.ensure(owned)
        bench.append(topic_of(owned), 0, [1_000])
        bench.broker.remove_all(owned)
        bench.broker.ensure(owned)
        assert bench.broker.commit_start_offsets(f"again-{topic_of(owned)}", topic_of(owned), "latest") == {0: 0, 1: 0}


def group_prefixes(owned: DeploymentResources) -> list[str]:
    """Return the prefixes of the names of the groups that the users may use."""
    return [f"{user.name}." for user in owned.users]


class TestDropGroups:
    def test_only_empty_groups_are_deleted(self, bench: Bench) -> None:
        owned = deployment()
        name = owned.users[0].name
        bench.broker.ensure(owned)
        for group in (f"{name}.1", f"{name}.2", f"{name}0.1"):
            bench.broker.commit_start_offsets(group, topic_of(owned), "latest")
        assert bench.broker.delete_groups(group_prefixes(owned))
        groups = bench.broker.groups().keys()
        assert groups == bench.broker.inventory().groups
        assert f"{name}0.1" in groups
        assert not {f"{name}.1", f"{name}.2"} & groups

    def test_a_group_with_a_member_stays(self, bench: Bench) -> None:
        owned = deployment()
        group = f"{owned.users[0].name}.main"
        bench.broker.ensure(owned)
        with bench.member(group, topic_of(owned)):
            assert not bench.broker.delete_groups(group_prefixes(owned))
            found = bench.broker.inventory()
            assert group in found.groups & found.busy_groups
            assert bench.broker.groups()[group]
        bench.broker.commit_start_offsets(group, topic_of(owned), "latest")
        assert group not in bench.broker.inventory().busy_groups
        assert not bench.broker.groups()[group]
        assert bench.broker.delete_groups(group_prefixes(owned))
        assert group not in bench.broker.inventory().groups

    def test_no_group(self, bench: Bench) -> None:
        assert bench.broker.delete_groups(["no-such-prefix."])


class TestLag:
    def test_the_lag_counts_uncommitted_records(self, bench: Bench) -> None:
        first, second = deployment(), deployment()
        for owned in (first, second):
            bench.broker.ensure(owned)
        topic = topic_of(first)
        bench.append(topic, 0, [1_000] * 3)
        groups = [f"{first.users[0].name}.1", f"{second.users[0].name}.1"]
        bench.broker.commit_start_offsets(groups[0], topic, "latest")
        bench.broker.commit_start_offsets(groups[1], topic_of(second), "latest")
        assert bench.broker.lag(groups) == {groups[0]: 0, groups[1]: 0}
        bench.append(topic, 0, [1_000] * 2)
        bench.append(topic, 1, [1_000] * 5)
        assert bench.broker.lag([groups[0]]) == {groups[0]: 7}

    def test_of_groups_without_commits(self, bench: Bench) -> None:
        assert bench.broker.lag([]) == {}
        assert bench.broker.lag(["no-such-group"]) == {}

    def test_a_deleted_topic_has_no_lag(self, bench: Bench) -> None:
        owned = deployment()
        bench.broker.ensure(owned)
        group = f"{owned.users[0].name}.1"
        bench.broker.commit_start_offsets(group, topic_of(owned), "latest")
        bench.broker.remove_all(owned)
        assert bench.broker.lag([group]) == {}
