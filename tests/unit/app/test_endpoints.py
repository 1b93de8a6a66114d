"""Where the endpoints are, and the errors when they are not configured."""

from pathlib import Path

import pytest

from headwater.app.data_directory import DataDirectory
from headwater.app.endpoints import Endpoints
from headwater.errors import SetupError
from headwater.settings import Settings

OWN_KAFKA = {"kafka_bootstrap_servers": "kafka.example:9092", "kafka_password": "a password"}
OWN_REDIS = {"redis_url": "redis://redis.example"}


def endpoints(home: Path, **settings: str) -> Endpoints:
    return Endpoints(Settings.model_validate({"data_dir": home, **settings}), DataDirectory(home))


class TestKafka:
    def test_the_error_names_a_missing_password(self, tmp_path: Path) -> None:
        nameless = endpoints(tmp_path, **OWN_KAFKA | {"kafka_password": ""})
        with pytest.raises(
            SetupError, match=r"Kafka at kafka\.example:9092: .* SCRAM-SHA-512 needs HEADWATER_KAFKA_PASSWORD"
        ):
            nameless.admin_kafka_access()

    def test_an_external_server(self, tmp_path: Path) -> None:
        assert endpoints(tmp_path, **OWN_KAFKA).admin_kafka_access().password == "a password"

    def test_without_an_external_server_a_data_directory_is_needed(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="HEADWATER_KAFKA_BOOTSTRAP_SERVERS"):
            endpoints(tmp_path / "mistyped").admin_kafka_access()


class TestEmbeddedKafka:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"kafka_credentials": "given"}, "given is only for your own Kafka. Set HEADWATER_KAFKA_BOOTSTRAP"),
            ({"kafka_reader_username": "reader"}, "Headwater creates the users of readers itself"),
        ],
    )
    def test_its_users_are_headwaters(self, tmp_path: Path, settings: dict[str, str], message: str) -> None:
        """`headwater up` and the single processes report the error before they connect to Kafka."""
        with pytest.raises(SetupError, match=message):
            endpoints(tmp_path, **settings).require_kafka_settings()
        with pytest.raises(SetupError, match=message):
            endpoints(tmp_path, **settings).admin_kafka_access()

    def test_the_directory_need_not_exist(self, tmp_path: Path) -> None:
        endpoints(tmp_path / "new").require_kafka_settings()


class TestDataDirectory:
    @pytest.mark.parametrize(
        ("own", "named"), [(OWN_REDIS, "HEADWATER_KAFKA_BOOTSTRAP_SERVERS"), (OWN_KAFKA, "HEADWATER_REDIS_URL")]
    )
    def test_a_single_process_does_not_create_a_shared_directory(
        self, tmp_path: Path, own: dict[str, str], named: str
    ) -> None:
        mistyped = tmp_path / "mistyped"
        with pytest.raises(SetupError, match=named):
            endpoints(mistyped, **own).require_embedded_data()

    def test_external_servers_need_no_existing_directory(self, tmp_path: Path) -> None:
        endpoints(tmp_path / "new", **OWN_KAFKA, **OWN_REDIS).require_embedded_data()
