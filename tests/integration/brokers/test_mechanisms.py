"""Each SASL mechanism and mutual TLS work on a real broker, with clear error messages.

The broker has a listener for each.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.app.topics import create_topics
from headwater.brokers import cluster_admin
from headwater.brokers.base import Acl, DeploymentResources, TopicSpec, User
from headwater.brokers.client_errors import ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import admin_settings, consumer_settings, producer_settings
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from tests.support.certificates import Authority
from tests.support.kafka import WAIT_S, read
from tests.support.ports import free_port
from tests.support.secured_kafka import ADMIN, PROTOCOLS, SecuredKafka

IAM = KafkaAccess(
    bootstrap_servers="kafka.example:9098", security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM",
    aws_region="eu-west-1"
)  # fmt: skip


def deployment(name: str) -> DeploymentResources:
    """A topic, and a user who may write and read it."""
    topic, user = f"flow.{name}", f"wrk-{name}"
    acls = (
        Acl(user, "topic", topic, ("READ", "WRITE")),
        Acl(user, "group", f"{user}.", ("READ",), prefixed=True),
    )
    return DeploymentResources((TopicSpec(topic, 1),), (User(user, "a password"),), acls)


def write_and_read(access: KafkaAccess, topic: str, group: str) -> None:
    """Write a record with a worker's settings, and read it as a member of a group."""
    producer = Producer(producer_settings(access, ClientErrors(access), 0))
    producer.produce(topic, b"record")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(consumer_settings(access, ClientErrors(access), group) | {"auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert [message.value() for message in read(consumer, 1)] == [b"record"]
    finally:
        consumer.close()


@pytest.mark.parametrize("listener", PROTOCOLS)
def test_headwater_manages_the_cluster(secured_kafka: SecuredKafka, listener: str) -> None:
    access = secured_kafka.access(listener)
    broker = KafkaClusterAdmin(access, secured_kafka.access("scram512"))
    owned = deployment(f"managed-{listener}")
    broker.ensure(owned)
    write_and_read(access, f"flow.managed-{listener}", "any")
    assert f"wrk-managed-{listener}" in broker.inventory().users
    broker.remove_all(owned)
    assert f"wrk-managed-{listener}" not in broker.inventory().users


@pytest.mark.parametrize("listener", PROTOCOLS)
def test_topics_alone_need_no_users(secured_kafka: SecuredKafka, listener: str) -> None:
    """Ingests and the prices worker create no users."""
    broker = KafkaClusterAdmin(secured_kafka.access(listener))
    create_topics(broker, (TopicSpec(f"alone-{listener}", 2),), threading.Event())
    assert broker.partition_count(f"alone-{listener}") == 2


@pytest.mark.parametrize("listener", ["scram256", "scram512"])
def test_users_that_headwater_creates(secured_kafka: SecuredKafka, listener: str) -> None:
    users = secured_kafka.access(listener)
    broker = KafkaClusterAdmin(secured_kafka.access("oauth"), users)
    name = f"made-{listener}"
    broker.ensure(deployment(name))
    user = users.model_copy(update={"username": f"wrk-{name}", "password": "a password"})
    write_and_read(user, f"flow.{name}", f"wrk-{name}.1")
    broker.remove_all(deployment(name))
    with pytest.raises(BrokerUnavailable, match=f"rejects the user wrk-{name}: check the user name and the password"):
        heard(user)


def test_scope_and_extensions_reach_the_token_endpoint(secured_kafka: SecuredKafka) -> None:
    extended = secured_kafka.access("oauth").model_copy(update={"oauth_extensions": "logicalCluster=lkc-1"})
    assert ADMIN in KafkaClusterAdmin(extended).inventory().users
    assert {form["scope"][0] for form in secured_kafka.oidc.granted} == {"kafka-admin"}


def test_a_client_id_without_rights(secured_kafka: SecuredKafka) -> None:
    another = secured_kafka.access("oauth").model_copy(update={"oauth_client_id": "another"})
    with pytest.raises(BrokerUnavailable, match="the client ID another lacks a right"):
        KafkaClusterAdmin(another).inventory()


def heard(access: KafkaAccess) -> None:
    """Request the topics until the login is rejected, and raise the error that the client gets."""
    errors = ClientErrors(access)
    client = AdminClient(admin_settings(access, errors))
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            client.list_topics(timeout=0.5)
            return
        except KafkaException:
            client.poll(0)
            errors.check()
    raise AssertionError("nobody refused anything")


class TestRefusals:
    @pytest.fixture
    def foreign(self, tmp_path: Path) -> dict[str, str]:
        """A client certificate of an authority that the brokers do not trust."""
        certificate = Authority(tmp_path, "a stranger").sign(ADMIN)
        return {"certificate_file": str(certificate.certificate), "key_file": str(certificate.key), "key_password": ""}

    def refused(self, secured_kafka: SecuredKafka, listener: str, update: dict[str, str], sentence: str) -> None:
        with pytest.raises(BrokerUnavailable, match=sentence):
            heard(secured_kafka.access(listener).model_copy(update=update))

    @pytest.mark.parametrize(
        ("listener", "update", "sentence"),
        [
            ("plain", {"password": "wrong"}, f"rejects the user {ADMIN}: check the user name and the password"),
            ("scram256", {"password": "wrong"}, f"rejects the user {ADMIN}: check the user name and the password"),
            ("scram512", {"sasl_mechanism": "SCRAM-SHA-256"}, "SCRAM-SHA-256 on this listener, but SCRAM-SHA-512: use"),
            (
                "scram512",
                {"ca_file": ""},
                "The TLS handshake with Kafka .* failed: check the security protocol and the",
            ),
            ("oauth", {"oauth_client_secret": "wrong"}, f"The token endpoint .* rejects the client ID {ADMIN}: check"),
            ("oauth", {"oauth_ca_file": ""}, "The TLS handshake with the token endpoint .* failed: check the address"),
            (
                "mtls",
                {"certificate_file": "", "key_file": "", "key_password": ""},
                "requires a client certificate: set",
            ),
        ],
    )
    def test_what_is_blamed(
        self, secured_kafka: SecuredKafka, listener: str, update: dict[str, str], sentence: str
    ) -> None:
        self.refused(secured_kafka, listener, update, sentence)

    def test_a_token_endpoint_that_is_away(self, secured_kafka: SecuredKafka) -> None:
        away = {"oauth_token_endpoint_url": f"https://127.0.0.1:{free_port()}/token"}
        self.refused(secured_kafka, "oauth", away, "The token endpoint .* does not answer: check that it runs")

    def test_a_certificate_that_is_not_trusted(self, secured_kafka: SecuredKafka, foreign: dict[str, str]) -> None:
        sentence = r"rejects the client certificate .*headwater-admin\.pem: check that it has not expired"
        self.refused(secured_kafka, "mtls", foreign, sentence)

    def test_a_token_that_the_broker_does_not_take(
        self, secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A Kafka without AWS rejects tokens of AWS."""
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret key")
        place = secured_kafka.access("oauth")
        access = IAM.model_copy(update={"bootstrap_servers": place.bootstrap_servers, "ca_file": place.ca_file})
        with pytest.raises(BrokerUnavailable, match="rejects the AWS credentials of this process: check the region"):
            heard(access)

    def test_a_listener_without_sasl(self, secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster_admin, "REQUEST_TIMEOUT_S", 1.0)
        place = {"bootstrap_servers": secured_kafka.access("open").bootstrap_servers, "ca_file": ""}
        access = secured_kafka.access("scram512").model_copy(update=place | {"security_protocol": "SASL_PLAINTEXT"})
        with pytest.raises(BrokerUnavailable, match=r"does not answer: .* the security protocol are right"):
            KafkaClusterAdmin(access).inventory()

    def test_a_key_that_its_password_does_not_open(self, secured_kafka: SecuredKafka) -> None:
        locked = secured_kafka.access("mtls").model_copy(update={"key_password": "wrong"})
        with pytest.raises(BrokerUnavailable, match=r"The settings of Kafka at .* can't be used: .*ssl\.key\.location"):
            KafkaClusterAdmin(locked)


class TestTokens:
    @pytest.fixture
    def short_lived(self, secured_kafka: SecuredKafka) -> Iterator[None]:
        """Tokens that expire after 5 s."""
        secured_kafka.oidc.lifetime_s = 5
        yield
        secured_kafka.oidc.lifetime_s = 3600

    @pytest.mark.usefixtures("short_lived")
    @pytest.mark.long
    def test_of_oidc_are_renewed(self, secured_kafka: SecuredKafka) -> None:
        access = secured_kafka.access("oauth")
        errors = ClientErrors(access)
        consumer = Consumer(consumer_settings(access, errors, "any"))
        granted = len(secured_kafka.oidc.granted)
        try:
            consumer.assign([TopicPartition("no topic", 0)])
            deadline = time.monotonic() + WAIT_S
            while len(secured_kafka.oidc.granted) < granted + 3:
                assert time.monotonic() < deadline
                consumer.poll(0.1)
            errors.check()
        finally:
            consumer.close()

    @pytest.mark.long
    def test_of_aws_are_renewed_before_they_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret key")
        monkeypatch.setattr(MSKAuthTokenProvider, "DEFAULT_TOKEN_EXPIRY_SECONDS", 10)
        access = IAM.model_copy(update={"bootstrap_servers": f"127.0.0.1:{free_port()}"})
        settings = admin_settings(access, ClientErrors(access))
        sign, given = settings["oauth_cb"], list[tuple[str, float, float]]()

        def recorded(config: str) -> tuple[str, float]:
            token, ends = sign(config)
            given.append((token, ends, time.time()))
            return token, ends

        client = AdminClient(settings | {"oauth_cb": recorded})
        while len(given) < 2:
            client.poll(0.1)
        for (old, ends, _), (new, _, signed_at) in itertools.pairwise(given):
            assert new != old
            assert signed_at < ends

    @pytest.mark.long
    def test_of_aws_without_credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/no/such/file")
        with pytest.raises(KafkaException) as failed:
            AdminClient(admin_settings(IAM, ClientErrors(IAM)))
        assert "can be signed: give this process AWS credentials" in broker_unavailable_error(failed.value, IAM).detail
