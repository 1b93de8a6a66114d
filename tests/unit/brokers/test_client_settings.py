import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headwater.brokers.client_errors import MAX_ERROR_AGE_S, ClientErrors, broker_unavailable_error
from headwater.brokers.client_settings import (
    LibraryLog,
    admin_settings,
    consumer_settings,
    producer_settings,
)
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from tests.support.ports import free_port

ACCESS = KafkaAccess(bootstrap_servers="kafka:9092", username="somebody", password="a password")


@pytest.fixture
def nowhere() -> KafkaAccess:
    """A cluster that does not exist."""
    return ACCESS.model_copy(update={"bootstrap_servers": f"127.0.0.1:{free_port()}"})


class TestSettings:
    def test_librdkafka_accepts_them(self, nowhere: KafkaAccess) -> None:
        errors = ClientErrors(nowhere)
        AdminClient(admin_settings(nowhere, errors))
        Consumer(consumer_settings(nowhere, errors, "group")).close()
        Consumer(consumer_settings(nowhere, errors, "group", "slot-1")).close()
        Producer(producer_settings(nowhere, errors, 5))

    def test_a_static_member_only_on_demand(self) -> None:
        errors = ClientErrors(ACCESS)
        assert "group.instance.id" not in consumer_settings(ACCESS, errors, "group")
        assert consumer_settings(ACCESS, errors, "group", "slot-1")["group.instance.id"] == "slot-1"

    def test_librdkafka_neither_commits_nor_skips_by_itself(self) -> None:
        settings = consumer_settings(ACCESS, ClientErrors(ACCESS), "group")
        assert settings["auto.offset.reset"] == "error"
        assert not settings["enable.auto.commit"]
        assert not settings["enable.auto.offset.store"]

    def test_without_authentication_there_are_no_credentials(self) -> None:
        plain = admin_settings(
            KafkaAccess(bootstrap_servers="k:1", security_protocol="PLAINTEXT"), ClientErrors(ACCESS)
        )
        assert not [name for name in plain if name.startswith("sasl.")]

    def test_ca_file(self) -> None:
        access = ACCESS.model_copy(update={"security_protocol": "SASL_SSL", "ca_file": "/ca.pem"})
        assert admin_settings(access, ClientErrors(access))["ssl.ca.location"] == "/ca.pem"
        assert "ssl.ca.location" not in admin_settings(ACCESS, ClientErrors(ACCESS))


class TestClientErrors:
    def test_a_rejection_is_raised_once(self) -> None:
        errors = ClientErrors(ACCESS)
        errors(KafkaError(KafkaError._AUTHENTICATION))
        with pytest.raises(BrokerUnavailable, match="kafka:9092 rejects the user somebody: check"):
            errors.check()
        errors.check()

    def test_an_old_rejection_does_not_explain_a_new_failure(self) -> None:
        now = 1000.0
        errors = ClientErrors(ACCESS, lambda: now)
        errors(KafkaError(KafkaError._AUTHENTICATION))
        now += MAX_ERROR_AGE_S + 1
        errors.check()

    def test_an_outage_is_not_a_rejection(self) -> None:
        errors = ClientErrors(ACCESS)
        errors(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        errors(KafkaError(KafkaError._TRANSPORT))
        errors.check()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (KafkaError._AUTHENTICATION, "rejects the user somebody: check the user name and the password"),
        (KafkaError._SSL, "check the security protocol and the CA file"),
        (KafkaError._TIMED_OUT, "kafka:9092 does not answer: check that it runs"),
        (KafkaError._TRANSPORT, "does not answer"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "somebody lacks a right"),
        (KafkaError.INVALID_REPLICATION_FACTOR, "Lower HEADWATER_KAFKA_REPLICATION"),
        (KafkaError.POLICY_VIOLATION, "rejected a request: .*POLICY_VIOLATION"),
    ],
)
def test_sentences(code: int, sentence: str) -> None:
    with pytest.raises(BrokerUnavailable, match=sentence) as raised:
        raise broker_unavailable_error(KafkaException(KafkaError(code)), ACCESS)
    assert ACCESS.password not in raised.value.detail


def test_library_log_accepts_the_bindings_arguments() -> None:
    LibraryLog().log(40, "%s [%s] %s", "FAIL", "client", "100 % refused")
    LibraryLog().log(40, "100 % refused")
