"""The settings give Headwater's, workers' and readers' credentials for an external Kafka."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.app.data_directory import DataDirectory
from headwater.app.endpoints import Endpoints
from headwater.errors import SetupError
from headwater.model.access import KafkaAccess
from headwater.settings import Settings

USER = {"password": "geheim"}
OAUTH = {
    "sasl_mechanism": "OAUTHBEARER",
    "oauth_token_endpoint_url": "https://idp.example/token",
    "oauth_client_id": "headwater",
    "oauth_client_secret": "geheim",
}


def endpoints(**members: Any) -> Endpoints:
    members = {"bootstrap_servers": "kafka.example:9092"} | members
    settings = Settings.model_validate({f"kafka_{member}": value for member, value in members.items()})
    return Endpoints(settings, DataDirectory(Path("unused")))


def place(access: KafkaAccess) -> tuple[str, str, str]:
    return access.bootstrap_servers, access.security_protocol, access.sasl_mechanism


class TestHeadwaterItself:
    def test_oauth(self) -> None:
        access = endpoints(**OAUTH, oauth_scope="kafka").admin_kafka_access()
        assert (access.sasl_mechanism, access.oauth_client_id, access.oauth_scope) == (
            "OAUTHBEARER",
            "headwater",
            "kafka",
        )
        assert access.username == ""  # the default user does not apply there

    def test_a_client_certificate(self, tmp_path: Path) -> None:
        for name in ("cert.pem", "key.pem", "ca.pem"):
            (tmp_path / name).touch()
        files = {"certificate_file": "cert.pem", "key_file": "key.pem", "ca_file": "ca.pem"}
        paths = {member: tmp_path / name for member, name in files.items()}
        access = endpoints(security_protocol="SSL", **paths, key_password="geheim").admin_kafka_access()
        assert (access.certificate_file, access.key_password) == (str(tmp_path / "cert.pem"), "geheim")

    def test_a_brokers_without_authentication(self) -> None:
        assert endpoints(security_protocol="PLAINTEXT").admin_kafka_access() == KafkaAccess(
            bootstrap_servers="kafka.example:9092", security_protocol="PLAINTEXT"
        )

    @pytest.mark.parametrize(
        ("members", "sentence"),
        [
            (
                OAUTH | {"oauth_client_secret": ""},
                r"at kafka\.example:9092: .* OAUTHBEARER needs HEADWATER_KAFKA_OAUTH_CLIENT_SECRET \(or .*_FILE\): add",
            ),
            (
                OAUTH | USER,
                "HEADWATER_KAFKA_PASSWORD applies only to .* but HEADWATER_KAFKA_SASL_MECHANISM is OAUTHBEARER: remove",
            ),
            (
                USER | {"oauth_scope": "kafka"},
                "HEADWATER_KAFKA_OAUTH_SCOPE applies only to HEADWATER_KAFKA_SASL_MECHANISM OAUTHBEARER",
            ),
            (
                USER | {"ca_file": "ca.pem"},
                "HEADWATER_KAFKA_CA_FILE applies only to HEADWATER_KAFKA_SECURITY_PROTOCOL SSL or",
            ),
            (
                USER | {"security_protocol": "SASL_SSL", "ca_file": "/no/such/ca.pem"},
                r"HEADWATER_KAFKA_CA_FILE names /no/such/ca\.pem, which can't be read \(No such file",
            ),
        ],
    )
    def test_refused(self, members: dict[str, str], sentence: str) -> None:
        with pytest.raises(SetupError, match=sentence) as raised:
            endpoints(**members).admin_kafka_access()
        assert "geheim" not in raised.value.detail

    def test_kerberos(self) -> None:
        with pytest.raises(ValidationError, match=r"GSSAPI .* is not supported, .* instead"):
            endpoints(sasl_mechanism="GSSAPI")

    def test_an_empty_path_means_no_file(self) -> None:
        assert endpoints(**USER, ca_file="").admin_kafka_access().ca_file == ""


class TestReadersAndWorkers:
    def test_by_default_they_use_the_listener_of_headwater(self) -> None:
        own = endpoints(**USER)
        expected = ("kafka.example:9092", "SASL_PLAINTEXT", "SCRAM-SHA-512")
        assert place(own.reader_kafka_access()) == place(own.worker_kafka_access()) == expected
        assert (own.worker_kafka_access().username, own.worker_kafka_access().password) == ("", "")

    def test_they_use_the_scram_mechanism_of_headwater(self) -> None:
        own = endpoints(**USER, sasl_mechanism="SCRAM-SHA-256")
        assert own.reader_kafka_access().sasl_mechanism == own.worker_kafka_access().sasl_mechanism == "SCRAM-SHA-256"

    @pytest.mark.parametrize("admin", [OAUTH, USER | {"sasl_mechanism": "PLAIN"}, {"security_protocol": "PLAINTEXT"}])
    def test_workers_use_the_readers_listener_if_headwater_is_not_a_scram_user(self, admin: dict[str, str]) -> None:
        readers = {"reader_bootstrap_servers": "public.example:9093", "reader_security_protocol": "SASL_SSL"}
        own = endpoints(**admin, **readers)
        expected = ("public.example:9093", "SASL_SSL", "SCRAM-SHA-512")
        assert place(own.reader_kafka_access()) == place(own.worker_kafka_access()) == expected

    def test_workers_use_the_internal_listener(self) -> None:
        own = endpoints(**USER, reader_bootstrap_servers="public.example:9093", reader_security_protocol="SASL_SSL")
        assert place(own.worker_kafka_access()) == ("kafka.example:9092", "SASL_PLAINTEXT", "SCRAM-SHA-512")
        assert place(own.reader_kafka_access()) == ("public.example:9093", "SASL_SSL", "SCRAM-SHA-512")

    def test_workers_at_another_listener_get_no_secret_of_headwater(self, tmp_path: Path) -> None:
        for name in ("cert.pem", "key.pem", "ca.pem"):
            (tmp_path / name).touch()
        own = endpoints(
            security_protocol="SSL",
            certificate_file=tmp_path / "cert.pem",
            key_file=tmp_path / "key.pem",
            ca_file=tmp_path / "ca.pem",
            reader_security_protocol="SASL_SSL",
            reader_bootstrap_servers="public.example:9093",
        )
        worker = own.worker_kafka_access()
        assert (worker.ca_file, worker.certificate_file, worker.key_file) == (str(tmp_path / "ca.pem"), "", "")

    def test_a_ca_file_only_for_readers(self, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").touch()
        own = endpoints(security_protocol="PLAINTEXT", ca_file=tmp_path / "ca.pem", reader_security_protocol="SASL_SSL")
        assert (own.admin_kafka_access().ca_file, own.worker_kafka_access().ca_file) == ("", str(tmp_path / "ca.pem"))

    def test_a_mechanism_whose_users_headwater_can_not_create(self) -> None:
        own = endpoints(**USER, reader_sasl_mechanism="PLAIN")
        with pytest.raises(SetupError, match=r"SASL_MECHANISM is PLAIN, but .* Or set .*=given"):
            own.reader_kafka_access()

    @pytest.mark.parametrize("member", ["reader_username", "reader_password"])
    def test_credentials_that_no_reader_would_get(self, member: str) -> None:
        with pytest.raises(SetupError, match="HEADWATER_KAFKA_CREDENTIALS=given") as raised:
            endpoints(**USER, **{member: "geheim"}).reader_kafka_access()
        assert "geheim" not in raised.value.detail

    @pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT"])
    def test_without_a_listener_for_users(self, protocol: str) -> None:
        own = endpoints(security_protocol=protocol)
        sentence = f"a listener with {protocol} has no users: set HEADWATER_KAFKA_READER_SECURITY_PROTOCOL to SASL_SSL"
        with pytest.raises(SetupError, match=sentence):
            own.reader_kafka_access()
        with pytest.raises(SetupError, match=sentence):
            own.worker_kafka_access()


LOGIN = {"reader_username": "reader", "reader_password": "geheim"}


class TestGivenCredentials:
    """The operator creates all users, so every authentication method is allowed."""

    @pytest.mark.parametrize(
        "admin",
        [
            {"security_protocol": "PLAINTEXT"},
            {"security_protocol": "SSL"},
            USER | {"sasl_mechanism": "PLAIN"},
            USER | {"sasl_mechanism": "SCRAM-SHA-256"},
            OAUTH,
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM", "aws_region": "eu-central-1"},
        ],
    )
    def test_workers_use_headwaters_credentials_and_readers_its_listener(self, admin: dict[str, str]) -> None:
        own = endpoints(credentials="given", **admin)
        assert own.worker_kafka_access() == own.admin_kafka_access()
        assert place(own.reader_kafka_access()) == place(own.admin_kafka_access())
        assert (own.reader_kafka_access().username, own.reader_kafka_access().password) == ("", "")
        own.require_kafka_settings()

    def test_readers_may_have_another_listener_and_mechanism(self) -> None:
        readers = {"reader_bootstrap_servers": "public.example:9093", "reader_security_protocol": "SASL_SSL"}
        own = endpoints(credentials="given", **OAUTH, **readers, reader_sasl_mechanism="PLAIN", **LOGIN)
        assert place(own.reader_kafka_access()) == ("public.example:9093", "SASL_SSL", "PLAIN")
        assert (own.reader_kafka_access().username, own.reader_kafka_access().password) == ("reader", "geheim")
        assert own.worker_kafka_access() == own.admin_kafka_access()

    def test_a_ca_file_only_for_readers(self, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").touch()
        own = endpoints(
            credentials="given",
            security_protocol="PLAINTEXT",
            ca_file=tmp_path / "ca.pem",
            reader_security_protocol="SSL",
        )
        assert (own.admin_kafka_access().ca_file, own.reader_kafka_access().ca_file) == ("", str(tmp_path / "ca.pem"))

    @pytest.mark.parametrize(
        ("members", "sentence"),
        [
            (USER | LOGIN | {"reader_password": ""}, "set both or none"),
            (USER | LOGIN | {"reader_username": ""}, "set both or none"),
            (
                {"security_protocol": "PLAINTEXT"} | LOGIN,
                "HEADWATER_KAFKA_READER_PASSWORD applies only to HEADWATER_KAFKA_READER_SECURITY_PROTOCOL SASL_PLAIN",
            ),
            (
                OAUTH | LOGIN,
                "HEADWATER_KAFKA_READER_PASSWORD applies only to HEADWATER_KAFKA_READER_SASL_MECHANISM PLAIN or SCRAM",
            ),
        ],
    )
    def test_credentials_that_no_reader_could_use(self, members: dict[str, str], sentence: str) -> None:
        with pytest.raises(SetupError, match=sentence) as raised:
            endpoints(credentials="given", **members).reader_kafka_access()
        assert "geheim" not in raised.value.detail
