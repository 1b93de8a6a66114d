"""Topics, users and access rules of a Kafka cluster (KRaft with the StandardAuthorizer)."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    TopicDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from headwater.brokers import base, login
from headwater.brokers.base import AccessRule, Inventory, Resources, TopicSpec, User
from headwater.brokers.client import ClientErrors, admin_settings, no_rights, unavailable
from headwater.brokers.offsets import EARLIEST, LATEST, Place, list_offsets
from headwater.brokers.topic_id import id_of, label
from headwater.errors import BrokerUnavailable, DeployFailed
from headwater.model.worker import KafkaAccess

REQUEST_S = 5.0
"""How long one request may take."""
LAG_REQUEST_S = 2.0
"""The same where somebody waits for an answer that has other parts too."""
SETTLE_S = 15.0
"""How long a change may take to show: brokers learn of it after the controller has answered."""
SCRAM_ITERATIONS: Final = 8192

_PRINCIPAL: Final = "User:"
_SCRAM: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_PAUSE_S: Final = 0.02
_EXISTS: Final = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})
_ABSENT: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.RESOURCE_NOT_FOUND, KafkaError.GROUP_ID_NOT_FOUND}
)
_WITHOUT_MEMBERS: Final = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})
_NO_AUTHORIZER: Final = frozenset({KafkaError.SECURITY_DISABLED})
_REFUSED_SETTINGS: Final = frozenset({KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION})
_BUSY: Final = frozenset({KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS})

T = TypeVar("T")


class KafkaBroker:
    """A cluster, seen by a user who may manage it.

    replication: copies of each topic that `ensure` makes. users: how the users that `ensure` makes log in, whatever
    name and password it has; by default, as the managing user does. manages_users: whether the managing user may
    manage users and access rules too, see base.Broker.
    """

    def __init__(
        self, access: KafkaAccess, replication: int, users: KafkaAccess | None = None, *, manages_users: bool = True
    ) -> None:
        self._access = access
        self._users = users or access
        self._replication = replication
        self._manages_users = manages_users
        self._errors = ClientErrors(access)
        try:
            self._admin = AdminClient(admin_settings(access, self._errors))
        except KafkaException as error:
            raise unavailable(error, access) from error

    def ensure(self, wanted: Resources) -> None:
        """See base.Broker. All three kinds are asked for at once, then every user logs in at once."""
        wanted = self._managed(wanted)
        with self._talking():
            topics = self._create_topics(wanted.topics)
            users = self._put_users(wanted.users)
            rules = self._create_rules(wanted.rules)
            if KafkaError.INVALID_REPLICATION_FACTOR in map(_error_code, topics):
                self._check_brokers()
            _raise_for_refused(spec.name for spec, made in zip(wanted.topics, topics, strict=True) if _refused(made))
            _results(topics, _EXISTS)
            self._grow([spec for spec, made in zip(wanted.topics, topics, strict=True) if _error_code(made)])
            if KafkaError.SECURITY_DISABLED in map(_error_code, rules):
                raise DeployFailed(NO_AUTHORIZER)
            _results(users + rules)
            present = self._admin.list_topics(timeout=REQUEST_S).topics.keys() | {t.name for t in wanted.topics}
        deadline = time.monotonic() + SETTLE_S
        with ThreadPoolExecutor(max(1, len(wanted.users)), "login") as pool:
            logins = [
                pool.submit(login.wait, self._users, user, _readable(user, wanted.rules) & present, deadline)
                for user in wanted.users
            ]
            for each in logins:
                each.result()

    def configure(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """See base.Broker."""
        asked = [_alteration(topic, changed) for topic, changed in settings.items() if changed]
        with self._talking():
            altered = _futures(self._admin.incremental_alter_configs, asked)
            _raise_for_refused(each.name for each, done in zip(asked, altered, strict=True) if _refused(done))
            _results(altered, _ABSENT)

    def trim(self, wanted: Resources, gone: Sequence[str]) -> None:
        """See base.Broker."""
        wanted = self._managed(wanted)
        keep = {_binding(rule, operation) for rule in wanted.rules for operation in rule.operations}
        with self._talking():
            asked = [self._admin.describe_acls(_rules_of(u.name), request_timeout=REQUEST_S) for u in wanted.users]
            stale = [_exactly(rule) for rules in _results(asked) for rule in rules if rule not in keep]
            _results(_futures(self._admin.delete_acls, stale))
            _results(self._delete_topics(gone), _ABSENT)
        self._wait_until_absent(set(), set(gone))

    def ping(self, topic: str) -> None:
        """See base.Broker."""
        with self._talking():
            described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_S)
            _results(described.values(), _ABSENT | {KafkaError.TOPIC_AUTHORIZATION_FAILED})

    def partitions(self, topic: str) -> int | None:
        """See base.Broker."""
        described = self._describe(topic)
        return None if described is None else len(described.partitions)

    def _describe(self, topic: str) -> TopicDescription | None:
        with self._talking():
            described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_S)
            found = _results(described.values(), _ABSENT)
        return found[0] if found else None

    def pin(self, group: str, topic: str, start_at: str) -> dict[int, int]:
        """See base.Broker."""
        described = self._describe(topic)
        if described is None:
            raise BrokerUnavailable(f"The topic {topic} does not exist on {self._access.bootstrap_servers}: create it.")
        count, metadata = len(described.partitions), label(id_of(described))
        with self._talking():
            committed = self._committed(group, topic, count)
            missing = [number for number in range(count) if number not in committed]
            if missing:
                starts = self._starts(topic, missing, "earliest" if committed else start_at)
                self._commit(group, topic, starts, metadata)
                committed |= starts
        return committed

    def lag(self, groups: Collection[str]) -> Mapping[str, int]:
        """See base.Broker. Two requests, whatever the number of groups and partitions."""
        with self._talking():
            asked = [
                future
                for group in groups
                for future in self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], request_timeout=LAG_REQUEST_S
                ).values()
            ]
            committed = {answer.group_id: answer.topic_partitions or [] for answer in _results(asked, _ABSENT)}
            places = {TopicPartition(p.topic, p.partition) for of in committed.values() for p in of}
            ends = self._offsets(dict.fromkeys(places, LATEST), LAG_REQUEST_S, _ABSENT)
        lags = {
            group: [
                ends[p.topic, p.partition] - p.offset for p in of if (p.topic, p.partition) in ends and p.offset >= 0
            ]
            for group, of in committed.items()
        }
        return {group: max(0, sum(partitions)) for group, partitions in lags.items() if partitions}

    def drop(self, owned: Resources) -> None:
        """See base.Broker. Returns when nothing of it shows any more."""
        owned = self._managed(owned)
        users = sorted({user.name for user in owned.users} | {rule.user for rule in owned.rules})
        topics = [topic.name for topic in owned.topics]
        with self._talking():
            _results(self._delete_rules(users), _NO_AUTHORIZER)  # first: it cuts off live connections
            _results(self._delete_users(users), _ABSENT)
            _results(self._delete_topics(topics), _ABSENT)
        self._wait_until_absent(set(users), set(topics))

    def drop_groups(self, prefixes: Sequence[str]) -> bool:
        """See base.Broker."""
        with self._talking():
            groups = [group for group in self._groups() if group.startswith(tuple(prefixes))]
            deleted = self._admin.delete_consumer_groups(groups, request_timeout=REQUEST_S) if groups else {}
            _results(deleted.values(), _ABSENT | _BUSY | self._groups_of_the_operator)
        return not any(_error_code(future) in _BUSY for future in deleted.values())

    def groups(self) -> frozenset[str]:
        """See base.Broker."""
        with self._talking():
            return frozenset(self._groups())

    def inventory(self) -> Inventory:
        """See base.Broker."""
        with self._talking():
            users, rules = self._users_and_rules() if self._manages_users else (frozenset[str](), {})
            groups = self._groups()
            return Inventory(
                topics=self._topics(),
                groups=frozenset(groups),
                busy_groups=frozenset(name for name, has_members in groups.items() if has_members),
                users=users,
                rules=rules,
                lists_users=self._manages_users,
            )

    def _managed(self, resources: Resources) -> Resources:
        """The part of some resources that is ours to manage."""
        return resources if self._manages_users else replace(resources, users=(), rules=())

    @property
    def _groups_of_the_operator(self) -> frozenset[int]:
        """The errors of groups that only the operator may delete; such groups expire by themselves."""
        return frozenset() if self._manages_users else frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})

    def _topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=REQUEST_S).topics)

    def _users_and_rules(self) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
        """All SCRAM users, and by user the topics that its rules name."""
        self._check_rights()
        users: Any = self._admin.describe_user_scram_credentials(request_timeout=REQUEST_S)
        rules = self._admin.describe_acls(_rules_of(None), request_timeout=REQUEST_S)
        found = (rule for listed in _results([rules], _NO_AUTHORIZER) for rule in listed)
        return frozenset(users.result()), _topics_by_user(found)

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Turns refusals of the cluster into BrokerUnavailable."""
        try:
            yield
        except KafkaException as error:
            self._admin.poll(0)  # a wrong password shows only here; the request itself timed out
            self._errors.check()
            raise unavailable(error, self._access) from error
        finally:
            self._admin.poll(0)

    def _check_rights(self) -> None:
        """Raise BrokerUnavailable when our user may not see everything.

        Kafka would answer with empty lists, and librdkafka 2.16 aborts the process on a refused list of users.
        """
        cluster = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=REQUEST_S).result()
        if AclOperation.DESCRIBE not in (cluster.authorized_operations or ()):
            raise BrokerUnavailable(no_rights(self._access))

    def _create_topics(self, topics: Sequence[TopicSpec]) -> list[Future[None]]:
        # A write needs a majority of the copies, so that the loss of a minority stops nothing.
        in_sync = {"min.insync.replicas": str((self._replication + 1) // 2)}
        new = [NewTopic(t.name, t.partitions, self._replication, config=in_sync | t.config) for t in topics]
        return _futures(self._admin.create_topics, new, operation_timeout=REQUEST_S)

    def _check_brokers(self) -> None:
        """Raise DeployFailed when there are fewer brokers than copies. None at all have only not registered yet."""
        if 0 < len(self._admin.list_topics(timeout=REQUEST_S).brokers) < self._replication:
            raise DeployFailed(_too_few_brokers(self._replication))
        raise BrokerUnavailable("The brokers of Kafka are not ready yet for a new topic. Try again in a few seconds.")

    def _grow(self, topics: Sequence[TopicSpec]) -> None:
        """Give topics that were there already the partitions that they lack."""
        counts = {topic.name: self.partitions(topic.name) or topic.partitions for topic in topics}
        new = [NewPartitions(t.name, t.partitions) for t in topics if counts[t.name] < t.partitions]
        _results(_futures(self._admin.create_partitions, new, operation_timeout=REQUEST_S))

    def _put_users(self, users: Sequence[User]) -> list[Future[None]]:
        if not users:  # one who makes topics alone may have no SCRAM mechanism
            return []
        info = ScramCredentialInfo(_SCRAM[self._users.sasl_mechanism], SCRAM_ITERATIONS)
        new = [UserScramCredentialUpsertion(user.name, info, user.password.encode()) for user in users]
        return _futures(self._admin.alter_user_scram_credentials, new)

    def _create_rules(self, rules: Sequence[AccessRule]) -> list[Future[None]]:
        new = [_binding(rule, operation) for rule in rules for operation in rule.operations]
        return _futures(self._admin.create_acls, list(dict.fromkeys(new)))

    def _delete_rules(self, users: Sequence[str]) -> list[Future[Any]]:
        return _futures(self._admin.delete_acls, [_rules_of(user) for user in users])

    def _delete_users(self, users: Sequence[str]) -> list[Future[None]]:
        # One request for each mechanism: brokers refuse all of a user's deletions when one credential is absent.
        return [
            future
            for mechanism in _SCRAM.values()
            for future in _futures(
                self._admin.alter_user_scram_credentials, [UserScramCredentialDeletion(u, mechanism) for u in users]
            )
        ]

    def _delete_topics(self, topics: Sequence[str]) -> list[Future[None]]:
        return _futures(self._admin.delete_topics, list(topics), operation_timeout=REQUEST_S)

    def _wait_until_absent(self, users: set[str], topics: set[str]) -> None:
        deadline = time.monotonic() + SETTLE_S
        while self._shows(users, topics):
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"Kafka still shows parts of what was removed after {SETTLE_S:g} s: try again.")
            time.sleep(_PAUSE_S)

    def _shows(self, users: set[str], topics: set[str]) -> bool:
        """Whether one of these users or topics is still there. Users are only looked at when some are named."""
        with self._talking():
            if topics & self._topics():
                return True
            if not users:
                return False
            present, rules = self._users_and_rules()
            return bool(users & (present | rules.keys()))

    def _groups(self) -> dict[str, bool]:
        """All groups, and whether they have members."""
        listed = self._admin.list_consumer_groups(request_timeout=REQUEST_S).result()
        for error in listed.errors:
            raise error
        return {group.group_id: group.state not in _WITHOUT_MEMBERS for group in listed.valid}

    def _committed(self, group: str, topic: str, count: int) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in range(count)])
        (answer,) = _results(_futures(self._admin.list_consumer_group_offsets, [asked]))
        return {each.partition: each.offset for each in answer.topic_partitions if each.offset >= 0}

    def _starts(self, topic: str, partitions: Sequence[int], start_at: str) -> dict[int, int]:
        places = [TopicPartition(topic, number) for number in partitions]
        ends = self._offsets(dict.fromkeys(places, LATEST))  # first: what comes before the second answer is read
        found = self._offsets(dict.fromkeys(places, _offset_spec(start_at)))
        # Below 0: nothing was stamped at or after the time.
        return {place[1]: ends[place] if offset < 0 else offset for place, offset in found.items()}

    def _offsets(
        self,
        asked: Mapping[TopicPartition, OffsetSpec],
        timeout_s: float = REQUEST_S,
        absent: frozenset[int] = frozenset(),
    ) -> dict[Place, int]:
        # "Latest" is before any open transaction: its records come after the pin, so they must be read.
        return list_offsets(self._admin, asked, IsolationLevel.READ_COMMITTED, timeout_s, absent)

    def _commit(self, group: str, topic: str, offsets: dict[int, int], metadata: str) -> None:
        partitions = [TopicPartition(topic, number, offset, metadata) for number, offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(group, partitions)
        (answer,) = _results(_futures(self._admin.alter_consumer_group_offsets, [asked]))
        for error in (partition.error for partition in answer.topic_partitions if partition.error is not None):
            if error.code() in _BUSY:
                raise BrokerUnavailable(f"The group {group} has members: stop them, then set its start positions.")
            raise KafkaException(error)


def _futures(call: Callable[..., dict[Any, Future[T]]], items: list[Any], **options: float) -> list[Future[T]]:
    """The futures of one request about some items. librdkafka refuses requests about none."""
    return list(call(items, request_timeout=REQUEST_S, **options).values()) if items else []


def _too_few_brokers(copies: int) -> str:
    return (
        f"The Kafka cluster has too few brokers for {copies} copies of a topic. Add brokers, or set "
        "HEADWATER_KAFKA_REPLICATION to the number that there are, and deploy again."
    )


NO_AUTHORIZER = (
    "This Kafka has no authorizer, so it takes no access rules. Set HEADWATER_KAFKA_CREDENTIALS=given to run without "
    "users and rules of Headwater's own, or give the brokers an authorizer, and deploy again."
)


def _refused(future: Future[Any]) -> bool:
    """Waits. True when Kafka refuses the settings of a topic."""
    return _error_code(future) in _REFUSED_SETTINGS


def _raise_for_refused(refused: Iterable[str]) -> None:
    """Raise DeployFailed when Kafka refuses the settings of a topic."""
    for topic in refused:
        raise DeployFailed(
            f"Kafka refuses the settings of the topic {topic}. Change partitions, retention_ms, retention_bytes, "
            "compression or cleanup_policy of the sink, or ask the operator of Kafka which values its policy allows."
        )


def _alteration(topic: str, settings: Mapping[str, str]) -> ConfigResource:
    """The request to set some settings of a topic."""
    changes = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)


def _error_code(future: Future[Any]) -> int | None:
    """Waits. None: no error."""
    error = future.exception()
    return error.args[0].code() if isinstance(error, KafkaException) else None


def _results(futures: Iterable[Future[T]], fine: frozenset[int] = frozenset()) -> list[T]:
    """Waits. The results; errors with these codes are left out, others are raised."""
    return [future.result() for future in futures if _error_code(future) not in fine]


def _binding(rule: AccessRule, operation: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if rule.prefixed else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType[rule.resource.upper()],
        rule.name,
        pattern,
        _PRINCIPAL + rule.user,
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _rules_of(user: str | None) -> AclBindingFilter:
    """All rules of a user; None: of everybody."""
    anything: Any = None  # the binding's types leave out that None is a wildcard
    principal = anything if user is None else _PRINCIPAL + user
    return AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        principal,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def _topics_by_user(rules: Iterable[AclBinding]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for rule in rules:
        topics = found.setdefault(rule.principal.removeprefix(_PRINCIPAL), set())
        if rule.restype is ResourceType.TOPIC:
            topics.add(rule.name)
    return {user: frozenset(topics) for user, topics in found.items()}


def _exactly(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def _readable(user: User, rules: Iterable[AccessRule]) -> set[str]:
    """Topics that the user's rules name."""
    return {r.name for r in rules if r.user == user.name and r.resource == "topic" and not r.prefixed}


def _offset_spec(start_at: str) -> OffsetSpec:
    if start_at == "latest":
        return LATEST
    if start_at == "earliest":
        return EARLIEST
    spec: OffsetSpec = OffsetSpec.for_timestamp(base.start_time_ms(start_at))
    return spec
