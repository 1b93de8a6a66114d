"""The credentials of a deployment on a real broker: what they allow, and what they deny."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from headwater.brokers import cluster_admin
from headwater.brokers.base import Acl, DeploymentResources, TopicSpec, User
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings, consumer_settings, producer_settings
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.errors import BrokerUnavailable, BrokerUnsuitable
from headwater.model.access import KafkaAccess
from tests.support.kafka import WAIT_S, KafkaServer, read
from tests.support.ports import free_port

PASSWORD = "a password"


def resources(name: str, source: str) -> DeploymentResources:
    """A deployment like the controller's deployments.

    It has a reader, a worker, a sink topic and a dead-letter topic.
    """
    reader, worker = f"dep-{name}", f"wrk-{name}"
    topics = (f"flow.{name}.out", f"flow.{name}.dlq")
    return DeploymentResources(
        topics=tuple(TopicSpec(topic, 1) for topic in topics),
        users=(User(reader, PASSWORD), User(worker, PASSWORD)),
        acls=(
            *(Acl(reader, "topic", topic, ("READ",)) for topic in topics),
            Acl(reader, "group", f"{reader}.", ("READ",), prefixed=True),
            *(Acl(worker, "topic", topic, ("WRITE",)) for topic in topics),
            Acl(worker, "topic", source, ("READ",)),
            Acl(worker, "group", f"{worker}.", ("READ",), prefixed=True),
        ),
    )


class Deployment:
    """One deployment on the broker."""

    def __init__(self, kafka: KafkaServer, name: str, source: str) -> None:
        self.name, self.source = name, source
        self.owned = resources(name, source)
        self.topic = f"flow.{name}.out"
        self.reader = kafka.user(f"dep-{name}", PASSWORD)
        self.worker = kafka.user(f"wrk-{name}", PASSWORD)


@pytest.fixture(scope="module")
def broker(kafka: KafkaServer) -> KafkaClusterAdmin:
    """KafkaClusterAdmin, logged in as the administrator."""
    return KafkaClusterAdmin(kafka.access)


@pytest.fixture(scope="module")
def source(kafka: KafkaServer) -> str:
    """The topic of a stream."""
    return kafka.create_topic(kafka.unique("stream"), 1)


@pytest.fixture(scope="module")
def ours(kafka: KafkaServer, broker: KafkaClusterAdmin, source: str) -> Iterator[Deployment]:
    """A deployment whose name is a prefix of the other deployment's name.

    It has one record in its sink topic.
    """
    deployment = Deployment(kafka, "near1", source)
    broker.ensure(deployment.owned)
    kafka.produce(deployment.topic, [b"ours"])
    yield deployment
    broker.remove_all(deployment.owned)


@pytest.fixture(scope="module")
def theirs(kafka: KafkaServer, broker: KafkaClusterAdmin, source: str) -> Iterator[Deployment]:
    """The other deployment."""
    deployment = Deployment(kafka, "near10", source)
    broker.ensure(deployment.owned)
    kafka.produce(deployment.topic, [b"theirs"])
    yield deployment
    broker.remove_all(deployment.owned)


def first_error(consumer: Consumer) -> int:
    """Return the code of the first error that a consumer gets."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for message in consumer.consume(1, 0.1):
            error = message.error()
            if error is not None:
                return error.code()
    raise AssertionError("no error came")


def poll_until_refused(consumer: Consumer, errors: ClientErrors) -> None:
    """Poll a client, and raise the error that `errors` gets."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        consumer.consume(1, 0.1)
        errors.check()


def write_error(producer: Producer, topic: str) -> int | None:
    """Write a record, and return the code of its error, or None when it is accepted."""
    refused: list[KafkaError] = []
    producer.produce(topic, b"{}", on_delivery=lambda error, _: refused.append(error) if error else None)
    producer.flush(WAIT_S)
    return refused[0].code() if refused else None


def admin(access: KafkaAccess) -> AdminClient:
    return AdminClient(admin_settings(access, ClientErrors(access)))


class TestReader:
    def test_reads_its_topic_with_its_groups(self, kafka: KafkaServer, ours: Deployment) -> None:
        for group in ("dep-near1.main", "dep-near1.another"):
            messages = kafka.consume(ours.topic, 1, access=ours.reader, group=group)
            assert [message.value() for message in messages] == [b"ours"]

    def test_sees_no_other_topic(self, ours: Deployment, theirs: Deployment) -> None:
        assert set(admin(ours.reader).list_topics(timeout=WAIT_S).topics) == {"flow.near1.out", "flow.near1.dlq"}

    def test_another_topic(self, kafka: KafkaServer, ours: Deployment, theirs: Deployment) -> None:
        for topic in (theirs.topic, ours.source):
            with kafka.consumer(ours.reader, "dep-near1.main") as consumer:
                consumer.subscribe([topic])
                assert first_error(consumer) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    @pytest.mark.parametrize("group", ["dep-near10.main", "dep-near1", "wrk-near1.1", "somebody"])
    def test_another_group(self, kafka: KafkaServer, ours: Deployment, theirs: Deployment, group: str) -> None:
        with kafka.consumer(ours.reader, group) as consumer:
            consumer.subscribe([ours.topic])
            assert first_error(consumer) == KafkaError.GROUP_AUTHORIZATION_FAILED

    def test_writing(self, kafka: KafkaServer, ours: Deployment) -> None:
        settings = producer_settings(ours.reader, ClientErrors(ours.reader), 0) | {"enable.idempotence": False}
        assert write_error(Producer(settings), ours.topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def test_creating_a_topic(self, kafka: KafkaServer, ours: Deployment) -> None:
        client = admin(ours.reader)
        with pytest.raises(KafkaException) as refusal:
            client.create_topics([NewTopic("flow.near1.more", 1, 1)])["flow.near1.more"].result(WAIT_S)
        assert refusal.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def test_creating_a_rule(self, kafka: KafkaServer, ours: Deployment, theirs: Deployment) -> None:
        acl = AclBinding(
            ResourceType.TOPIC,
            theirs.topic,
            ResourcePatternType.LITERAL,
            f"User:{ours.reader.username}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        client = admin(ours.reader)
        with pytest.raises(KafkaException) as refusal:
            client.create_acls([acl])[acl].result(WAIT_S)
        assert refusal.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED

    def test_a_wrong_password_is_reported(self, ours: Deployment) -> None:
        access = ours.reader.model_copy(update={"password": "wrong"})
        errors = ClientErrors(access)
        consumer = Consumer(consumer_settings(access, errors, "dep-near1.main"))
        consumer.subscribe([ours.topic])
        with pytest.raises(BrokerUnavailable, match="rejects the user dep-near1"):
            poll_until_refused(consumer, errors)
        consumer.close()


class TestWorker:
    def test_writes_its_topics_and_reads_its_source(self, kafka: KafkaServer, ours: Deployment) -> None:
        kafka.produce(ours.source, [b"in"])
        messages = kafka.consume(ours.source, 1, access=ours.worker, group="wrk-near1.1")
        assert [message.value() for message in messages] == [b"in"]
        assert write_error(kafka.producer(ours.worker), "flow.near1.dlq") is None

    def test_writes_nothing_else(self, kafka: KafkaServer, ours: Deployment, theirs: Deployment) -> None:
        producer = kafka.producer(ours.worker)
        for topic in (theirs.topic, ours.source):
            assert write_error(producer, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_dropping_cuts_off_a_live_reader(kafka: KafkaServer, broker: KafkaClusterAdmin, source: str) -> None:
    deployment = Deployment(kafka, kafka.unique("live"), source)
    broker.ensure(deployment.owned)
    kafka.produce(deployment.topic, [b"before"])
    with kafka.consumer(deployment.reader, f"{deployment.reader.username}.main") as consumer:
        consumer.subscribe([deployment.topic])
        assert [message.value() for message in read(consumer, 1)] == [b"before"]
        broker.remove_all(DeploymentResources((), deployment.owned.users, deployment.owned.acls))
        kafka.produce(deployment.topic, [b"after"])
        assert first_error(consumer) in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    broker.remove_all(deployment.owned)


class TestBrokerUnavailable:
    @pytest.fixture(autouse=True)
    def _short_requests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster_admin, "REQUEST_TIMEOUT_S", 1.0)

    def test_no_broker_at_the_address(self, kafka: KafkaServer) -> None:
        access = kafka.access.model_copy(update={"bootstrap_servers": f"127.0.0.1:{free_port()}"})
        with pytest.raises(BrokerUnavailable, match="does not answer"):
            KafkaClusterAdmin(access).inventory()

    def test_wrong_admin_password(self, kafka: KafkaServer) -> None:
        broker = KafkaClusterAdmin(kafka.user(kafka.access.username, "wrong"))
        with pytest.raises(BrokerUnavailable, match="rejects the user headwater-admin: check"):
            broker.inventory()

    def test_not_an_administrator(self, kafka: KafkaServer, ours: Deployment) -> None:
        with pytest.raises(BrokerUnavailable, match="dep-near1 lacks a right"):
            KafkaClusterAdmin(ours.reader).inventory()

    def test_too_few_brokers(self, kafka: KafkaServer) -> None:
        wanted = DeploymentResources((TopicSpec(kafka.unique("copies"), 1),), (), ())
        with pytest.raises(
            BrokerUnsuitable, match=r"fewer brokers than the replication factor 3.* HEADWATER_KAFKA_REPLICATION"
        ):
            KafkaClusterAdmin(kafka.access, replication=3).ensure(wanted)

    def test_settings_that_kafka_rejects(self, kafka: KafkaServer) -> None:
        broker, topic = KafkaClusterAdmin(kafka.access), kafka.unique("settings")
        wrong = {"retention.ms": "-2"}
        with pytest.raises(BrokerUnsuitable, match=f"rejects the settings of the topic {topic}"):
            broker.ensure(DeploymentResources((TopicSpec(topic, 1, wrong),), (), ()))
        broker.ensure(DeploymentResources((TopicSpec(topic, 1),), (), ()))
        with pytest.raises(BrokerUnsuitable, match=f"rejects the settings of the topic {topic}"):
            broker.configure({topic: wrong})

    def test_brokers_that_have_not_registered(self, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AdminClient, "list_topics", lambda *_, **__: SimpleNamespace(brokers={}))
        wanted = DeploymentResources((TopicSpec(kafka.unique("copies"), 1),), (), ())
        with pytest.raises(BrokerUnavailable, match="not ready yet"):
            KafkaClusterAdmin(kafka.access, replication=3).ensure(wanted)

    def test_bad_settings(self, kafka: KafkaServer) -> None:
        access = kafka.access.model_copy(update={"security_protocol": "SASL_SSL", "ca_file": "/no/such/file"})
        with pytest.raises(BrokerUnavailable, match=r"ca\.location"):
            KafkaClusterAdmin(access)
