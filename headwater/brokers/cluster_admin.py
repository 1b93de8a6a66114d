"""Manages topics, users, ACLs and groups of a Kafka cluster.

The cluster uses KRaft. A cluster whose users are managed has an authorizer; any other may have none.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NoReturn

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    TopicDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from headwater.brokers import group_offsets, login_check
from headwater.brokers.acls import acl_bindings, filter_of_binding, filter_of_user, topics_by_user
from headwater.brokers.admin_connection import AdminConnection
from headwater.brokers.admin_requests import HAS_MEMBERS, REQUEST_TIMEOUT_S, error_code, results, send
from headwater.brokers.base import Acl, DeploymentResources, Inventory, TopicOffsets, TopicSpec, User
from headwater.brokers.client_errors import missing_rights_message
from headwater.brokers.offsets import LATEST
from headwater.brokers.topic_id import admin_metadata, commit_metadata, committed_topic_id, described_topic_id
from headwater.brokers.topic_partitions import is_missing, request_descriptions
from headwater.errors import BrokerUnavailable, BrokerUnsuitable
from headwater.model.access import KafkaAccess

LAG_REQUEST_TIMEOUT_S = 2.0
"""Timeout of a request for the lag; shorter, because an API response waits for it."""
PROPAGATION_TIMEOUT_S = 15.0
"""How long a change may take to reach all brokers after the KRaft controller of Kafka has accepted it."""
DESCRIBED_AT_ONCE = 200
"""How many topics a request describes at most, so that the conversion of a response holds the GIL only shortly."""
SCRAM_ITERATIONS: Final = 8192

NO_AUTHORIZER_MESSAGE: Final = (
    "This Kafka has no authorizer, so it rejects ACLs. Set HEADWATER_KAFKA_CREDENTIALS=given to run without "
    "users and ACLs of Headwater, or configure an authorizer in the brokers, and deploy again."
)

_SCRAM: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_POLL_INTERVAL_S: Final = 0.02
_ALREADY_EXISTS: Final = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})
_NOT_FOUND: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.RESOURCE_NOT_FOUND, KafkaError.GROUP_ID_NOT_FOUND}
)
_WITHOUT_MEMBERS: Final = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})
_SECURITY_DISABLED: Final = frozenset({KafkaError.SECURITY_DISABLED})
_INVALID_SETTINGS: Final = frozenset({KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION})


class KafkaClusterAdmin:
    """Implements base.ClusterAdmin for a Kafka cluster.

    Args:
        access: How the managing user logs in.
        user_access: How the users that `ensure` creates log in; its user name and password are ignored. Default: like
            the managing user.
        replication: The replication factor of the topics that `ensure` creates.
        manages_users: See base.ClusterAdmin.
    """

    def __init__(
        self,
        access: KafkaAccess,
        user_access: KafkaAccess | None = None,
        *,
        replication: int = 1,
        manages_users: bool = True,
    ) -> None:
        self._access = access
        self._user_access = user_access or access
        self._replication = replication
        self._manages_users = manages_users
        self._connection = AdminConnection(access)

    @property
    def _admin(self) -> AdminClient:
        return self._connection.client

    def ensure(self, desired: DeploymentResources) -> None:
        """See base.ClusterAdmin.

        Sends the requests for topics, users and ACLs concurrently, then logs in as all users concurrently.
        """
        desired = self._managed_part(desired)
        with self._connection.translated_errors():
            topic_futures = self._create_topics(desired.topics)
            user_futures = self._upsert_users(desired.users)
            acl_futures = self._create_acls(desired.acls)
            if KafkaError.INVALID_REPLICATION_FACTOR in map(error_code, topic_futures):
                self._raise_for_broker_count()
            sent = [*zip(desired.topics, topic_futures, strict=True)]
            _raise_for_invalid_settings(spec.name for spec, future in sent if _has_invalid_settings(future))
            results(topic_futures, _ALREADY_EXISTS)
            self._add_partitions([spec for spec, future in sent if error_code(future)])
            if KafkaError.SECURITY_DISABLED in map(error_code, acl_futures):
                raise BrokerUnsuitable(NO_AUTHORIZER_MESSAGE)
            results(user_futures + acl_futures)
            existing = self._list_topics() | {topic.name for topic in desired.topics}
        self._log_in_as_all(desired, existing)

    def _log_in_as_all(self, desired: DeploymentResources, existing_topics: Set[str]) -> None:
        """Return when every user can log in and sees the topics in its ACLs.

        An ACL may name a topic that does not exist, which no user will ever see.
        """
        deadline = time.monotonic() + PROPAGATION_TIMEOUT_S
        with ThreadPoolExecutor(max(1, len(desired.users)), "login") as pool:
            logins = [
                pool.submit(
                    login_check.wait_until_usable,
                    self._user_access,
                    user,
                    _topics_in_acls(user, desired.acls) & existing_topics,
                    deadline,
                )
                for user in desired.users
            ]
            for login in logins:
                login.result()

    def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """See base.ClusterAdmin."""
        changes = [_config_change(topic, changed) for topic, changed in settings.items() if changed]
        with self._connection.translated_errors():
            futures = send(self._admin.incremental_alter_configs, changes)
            sent = zip(changes, futures, strict=True)
            _raise_for_invalid_settings(change.name for change, future in sent if _has_invalid_settings(future))
            results(futures, _NOT_FOUND)

    def remove_stale(self, desired: DeploymentResources, removed_topics: Sequence[str]) -> None:
        """See base.ClusterAdmin."""
        desired = self._managed_part(desired)
        desired_acls = set(acl_bindings(desired.acls))
        with self._connection.translated_errors():
            described = [
                self._admin.describe_acls(filter_of_user(user.name), request_timeout=REQUEST_TIMEOUT_S)
                for user in desired.users
            ]
            stale = {acl for acls in results(described) for acl in acls} - desired_acls
            results(send(self._admin.delete_acls, [filter_of_binding(acl) for acl in stale]))
            results(self._delete_topics(removed_topics), _NOT_FOUND)
        self._wait_until_absent(set(), set(removed_topics))

    def ping(self, topic: str) -> None:
        """See base.ClusterAdmin."""
        with self._connection.translated_errors():
            described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)
            results(described.values(), _NOT_FOUND | {KafkaError.TOPIC_AUTHORIZATION_FAILED})

    def partition_count(self, topic: str) -> int | None:
        """See base.ClusterAdmin."""
        described = self._describe(topic)
        return None if described is None else len(described.partitions)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int | None]:
        """See base.ClusterAdmin.

        Sends the requests concurrently, each for at most DESCRIBED_AT_ONCE topics.
        """
        names = list(topics)
        batches = [names[first : first + DESCRIBED_AT_ONCE] for first in range(0, len(names), DESCRIBED_AT_ONCE)]
        requests = [request_descriptions(self._admin, batch, REQUEST_TIMEOUT_S) for batch in batches]
        described = [(topic, future) for request in requests for topic, future in request.items()]
        counts = {topic: len(future.result().partitions) for topic, future in described if not future.exception()}
        return counts | {topic: None for topic, future in described if is_missing(future.exception())}

    def _describe(self, topic: str) -> TopicDescription | None:
        with self._connection.translated_errors():
            described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)
            topics = results(described.values(), _NOT_FOUND)
        return topics[0] if topics else None

    def commit_start_offsets(self, group: str, topic: str, start_at: str) -> dict[int, int]:
        """See base.ClusterAdmin."""
        described = self._describe(topic)
        if described is None:
            raise BrokerUnavailable(f"The topic {topic} does not exist on {self._access.bootstrap_servers}: create it.")
        count, metadata = len(described.partitions), commit_metadata(described_topic_id(described))
        with self._connection.translated_errors():
            commits = group_offsets.committed(self._admin, group, topic, range(count))
            committed = {partition: each.offset for partition, each in commits.items()}
            if uncommitted := [partition for partition in range(count) if partition not in committed]:
                position = "earliest" if committed else start_at
                starts = group_offsets.offsets_at(self._admin, topic, uncommitted, position)
                group_offsets.commit(self._admin, group, topic, starts, metadata)
                committed |= starts
        return committed

    def committed_offsets(self, group: str, topic: str) -> TopicOffsets | None:
        """See base.ClusterAdmin."""
        described = self._describe(topic)
        if described is None:
            return None
        with self._connection.translated_errors():
            commits = group_offsets.stable_committed(self._admin, group, topic, range(len(described.partitions)))
        if not commits:
            return None
        present_id = described_topic_id(described)
        # If a commit has another topic id than the present one, that id is returned: the offsets belong to a topic that
        # was deleted.
        other_ids = {committed_topic_id(admin_metadata(each)) for each in commits.values()} - {present_id, ""}
        return TopicOffsets(
            min(other_ids, default=present_id), {number: each.offset for number, each in sorted(commits.items())}
        )

    def topic_offsets(self, topic: str, position: str) -> TopicOffsets | None:
        """See base.ClusterAdmin."""
        described = self._describe(topic)
        if described is None:
            return None
        with self._connection.translated_errors():
            offsets = group_offsets.offsets_at(self._admin, topic, range(len(described.partitions)), position)
        return TopicOffsets(described_topic_id(described), offsets)

    def commit_offsets(self, group: str, topic: str, positions: TopicOffsets) -> None:
        """See base.ClusterAdmin."""
        if positions.offsets:
            with self._connection.translated_errors():
                metadata = commit_metadata(positions.topic_id)
                group_offsets.commit(self._admin, group, topic, positions.offsets, metadata)

    def lag(self, groups: Collection[str]) -> Mapping[str, int]:
        """See base.ClusterAdmin.

        Sends one request for each group, and one for the end offsets of all partitions.
        """
        with self._connection.translated_errors():
            futures = [
                future
                for group in groups
                for future in self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], request_timeout=LAG_REQUEST_TIMEOUT_S
                ).values()
            ]
            responses = results(futures, _NOT_FOUND)
            committed = {response.group_id: response.topic_partitions or [] for response in responses}
            partitions = {TopicPartition(p.topic, p.partition) for offsets in committed.values() for p in offsets}
            latest = dict.fromkeys(partitions, LATEST)
            ends = group_offsets.stable_offsets(self._admin, latest, LAG_REQUEST_TIMEOUT_S, _NOT_FOUND)
        partition_lags = {
            group: [
                ends[p.topic, p.partition] - p.offset
                for p in offsets
                if (p.topic, p.partition) in ends and p.offset >= 0
            ]
            for group, offsets in committed.items()
        }
        return {group: max(0, sum(lags)) for group, lags in partition_lags.items() if lags}

    def remove_all(self, resources: DeploymentResources) -> None:
        """See base.ClusterAdmin.

        Returns when the cluster no longer lists any of these users, ACLs and topics.
        """
        resources = self._managed_part(resources)
        users = sorted({user.name for user in resources.users} | {acl.user for acl in resources.acls})
        topics = [topic.name for topic in resources.topics]
        with self._connection.translated_errors():
            # The ACLs come first, because deleting them also stops open connections; deleting a user does not.
            results(self._delete_acls(users), _SECURITY_DISABLED)
            results(self._delete_users(users), _NOT_FOUND)
            results(self._delete_topics(topics), _NOT_FOUND)
        self._wait_until_absent(set(users), set(topics))

    def delete_groups(self, prefixes: Sequence[str]) -> bool:
        """See base.ClusterAdmin."""
        with self._connection.translated_errors():
            groups = [group for group in self._list_groups() if group.startswith(tuple(prefixes))]
            deleted = self._admin.delete_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_S) if groups else {}
            results(deleted.values(), _NOT_FOUND | HAS_MEMBERS | self._errors_of_undeletable_groups)
        return not any(error_code(future) in HAS_MEMBERS for future in deleted.values())

    def groups(self) -> Mapping[str, bool]:
        """See base.ClusterAdmin."""
        with self._connection.translated_errors():
            return self._list_groups()

    def inventory(self) -> Inventory:
        """See base.ClusterAdmin."""
        with self._connection.translated_errors():
            users, topics_in_acls_by_user = (
                self._list_users_and_acls() if self._manages_users else (frozenset[str](), {})
            )
            groups = self._list_groups()
            return Inventory(
                topics=self._list_topics(),
                groups=frozenset(groups),
                busy_groups=frozenset(name for name, has_members in groups.items() if has_members),
                users=users,
                topics_in_acls_by_user=topics_in_acls_by_user,
                has_users_and_acls=self._manages_users,
            )

    def _managed_part(self, resources: DeploymentResources) -> DeploymentResources:
        """Return the resources, without users and ACLs when the operator of Kafka manages them."""
        return resources if self._manages_users else replace(resources, users=(), acls=())

    @property
    def _errors_of_undeletable_groups(self) -> frozenset[int]:
        """The error codes of groups that only the operator of Kafka may delete.

        Such groups expire by themselves.
        """
        return frozenset() if self._manages_users else frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})

    def _list_topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics)

    def _list_users_and_acls(self) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
        """Return all SCRAM users, and by user the topics in the user's ACLs."""
        self._check_rights()
        users: Any = self._admin.describe_user_scram_credentials(request_timeout=REQUEST_TIMEOUT_S)
        described = self._admin.describe_acls(filter_of_user(None), request_timeout=REQUEST_TIMEOUT_S)
        acls = (acl for listed in results([described], _SECURITY_DISABLED) for acl in listed)
        return frozenset(users.result()), topics_by_user(acls)

    def _check_rights(self) -> None:
        """Raise BrokerUnavailable when the managing user lacks the right to list everything.

        Without that right Kafka would return empty lists, and librdkafka 2.16 aborts the process when Kafka rejects the
        request for all users. It also aborts when the description of a cluster names no broker, which happens while
        Kafka starts. So the brokers are listed first.
        """
        if not self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers:
            raise BrokerUnavailable("No broker of Kafka is ready yet. Try again in a few seconds.")
        cluster = self._admin.describe_cluster(
            include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
        ).result()
        if AclOperation.DESCRIBE not in (cluster.authorized_operations or ()):
            raise BrokerUnavailable(missing_rights_message(self._access))

    def _create_topics(self, topics: Sequence[TopicSpec]) -> list[Future[None]]:
        # A write needs at least half of the replicas, so that the loss of a minority does not stop the writes.
        in_sync = {"min.insync.replicas": str((self._replication + 1) // 2)}
        new_topics = [NewTopic(t.name, t.partitions, self._replication, config=in_sync | t.config) for t in topics]
        return send(self._admin.create_topics, new_topics, operation_timeout=REQUEST_TIMEOUT_S)

    def _raise_for_broker_count(self) -> NoReturn:
        """Raise the error for new topics that Kafka rejected for lack of brokers.

        Raises BrokerUnsuitable when the cluster lists fewer brokers than the replication factor. Otherwise raises
        BrokerUnavailable: the brokers are still starting, and the controller of Kafka does not accept them all yet.
        """
        if 0 < len(self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers) < self._replication:
            raise BrokerUnsuitable(_too_few_brokers_message(self._replication))
        raise BrokerUnavailable("The brokers of Kafka are not ready yet for a new topic. Try again in a few seconds.")

    def _add_partitions(self, topics: Sequence[TopicSpec]) -> None:
        """Add partitions to existing topics that have too few."""
        counts = {topic.name: self.partition_count(topic.name) or topic.partitions for topic in topics}
        new_counts = [NewPartitions(t.name, t.partitions) for t in topics if counts[t.name] < t.partitions]
        results(send(self._admin.create_partitions, new_counts, operation_timeout=REQUEST_TIMEOUT_S))

    def _upsert_users(self, users: Sequence[User]) -> list[Future[None]]:
        if not users:  # a caller that creates only topics may have configured no SCRAM mechanism
            return []
        info = ScramCredentialInfo(_SCRAM[self._user_access.sasl_mechanism], SCRAM_ITERATIONS)
        credentials = [UserScramCredentialUpsertion(user.name, info, user.password.encode()) for user in users]
        return send(self._admin.alter_user_scram_credentials, credentials)

    def _create_acls(self, acls: Sequence[Acl]) -> list[Future[None]]:
        return send(self._admin.create_acls, acl_bindings(acls))

    def _delete_acls(self, users: Sequence[str]) -> list[Future[Any]]:
        return send(self._admin.delete_acls, [filter_of_user(user) for user in users])

    def _delete_users(self, users: Sequence[str]) -> list[Future[None]]:
        # One request for each mechanism: brokers reject all deletions of a user when one of its credentials is missing.
        return [
            future
            for mechanism in _SCRAM.values()
            for future in send(
                self._admin.alter_user_scram_credentials, [UserScramCredentialDeletion(u, mechanism) for u in users]
            )
        ]

    def _delete_topics(self, topics: Sequence[str]) -> list[Future[None]]:
        return send(self._admin.delete_topics, list(topics), operation_timeout=REQUEST_TIMEOUT_S)

    def _wait_until_absent(self, users: set[str], topics: set[str]) -> None:
        deadline = time.monotonic() + PROPAGATION_TIMEOUT_S
        while self._lists_any(users, topics):
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"Kafka still lists removed users or topics after {PROPAGATION_TIMEOUT_S:g} s. Try again."
                )
            time.sleep(_POLL_INTERVAL_S)

    def _lists_any(self, users: set[str], topics: set[str]) -> bool:
        """Return whether the cluster lists any of these users or topics.

        Requests the users of the cluster only when `users` is not empty.
        """
        with self._connection.translated_errors():
            if topics & self._list_topics():
                return True
            if not users:
                return False
            listed_users, topics_in_acls_by_user = self._list_users_and_acls()
            return bool(users & (listed_users | topics_in_acls_by_user.keys()))

    def _list_groups(self) -> dict[str, bool]:
        """Return all groups, and whether each has members."""
        response = self._admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
        if response.errors:
            raise response.errors[0]
        return {group.group_id: group.state not in _WITHOUT_MEMBERS for group in response.valid}


def _too_few_brokers_message(replication: int) -> str:
    return (
        f"The Kafka cluster has fewer brokers than the replication factor {replication}. Add brokers, or set "
        "HEADWATER_KAFKA_REPLICATION to the number of brokers, and try again."
    )


def _has_invalid_settings(future: Future[Any]) -> bool:
    """Wait for the future, and return whether Kafka rejected the topic's settings."""
    return error_code(future) in _INVALID_SETTINGS


def _raise_for_invalid_settings(topics: Iterable[str]) -> None:
    """Raise BrokerUnsuitable for the first of these topics, whose settings Kafka rejected."""
    for topic in topics:
        raise BrokerUnsuitable(
            f"Kafka rejects the settings of the topic {topic}. Change partitions, retention_ms, retention_bytes, "
            "compression or cleanup_policy of the sink, or ask the operator of Kafka which values its policy allows."
        )


def _config_change(topic: str, settings: Mapping[str, str]) -> ConfigResource:
    """Return the request to change some settings of a topic."""
    changes = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)


def _topics_in_acls(user: User, acls: Iterable[Acl]) -> set[str]:
    """Return the topics in the ACLs of a user."""
    return {r.name for r in acls if r.user == user.name and r.resource == "topic" and not r.prefixed}
