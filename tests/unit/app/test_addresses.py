"""Where the parts are, and what is said when they are nowhere."""

from pathlib import Path

import pytest

from headwater.app.addresses import Addresses
from headwater.app.home import Home
from headwater.errors import SetupError
from headwater.services.deployments import Login
from headwater.settings import Settings

OWN_KAFKA = {"kafka_bootstrap_servers": "kafka.example:9092", "kafka_password": "a password"}
OWN_REDIS = {"redis_url": "redis://redis.example"}


def addresses(home: Path, **settings: str) -> Addresses:
    return Addresses(Settings.model_validate({"data_dir": home, **settings}), Home(home))


class TestKafka:
    def test_a_password_that_is_missing_is_asked_for(self, tmp_path: Path) -> None:
        nameless = addresses(tmp_path, **OWN_KAFKA | {"kafka_password": ""})
        with pytest.raises(SetupError, match=r"Set HEADWATER_KAFKA_PASSWORD .* on Kafka at kafka\.example:9092"):
            nameless.kafka()

    def test_one_of_your_own(self, tmp_path: Path) -> None:
        assert addresses(tmp_path, **OWN_KAFKA).kafka().password == "a password"

    def test_without_one_a_data_directory_must_be_there(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="HEADWATER_KAFKA_BOOTSTRAP_SERVERS"):
            addresses(tmp_path / "mistyped").kafka()


GIVEN = {"kafka_credentials": "given", "kafka_reader_username": "reader", "kafka_reader_password": "secret"}


class TestReaderLogin:
    def test_headwater_makes_one_unless_told_otherwise(self, tmp_path: Path) -> None:
        assert addresses(tmp_path).manages_kafka_users
        assert addresses(tmp_path).reader_login() is None

    def test_the_operator_may_give_one_or_none(self, tmp_path: Path) -> None:
        assert addresses(tmp_path, **GIVEN).reader_login() == Login("reader", "secret")
        nameless = addresses(tmp_path, kafka_credentials="given")
        assert nameless.reader_login() == Login(None, None)
        assert not nameless.manages_kafka_users

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (GIVEN | {"kafka_reader_password": ""}, "set both or none"),
            (GIVEN | {"kafka_reader_username": ""}, "set both or none"),
            (GIVEN | {"kafka_credentials": "managed"}, "HEADWATER_KAFKA_CREDENTIALS=given"),
        ],
    )
    def test_a_login_that_nobody_could_use_is_refused(
        self, tmp_path: Path, given: dict[str, str], message: str
    ) -> None:
        with pytest.raises(SetupError, match=message):
            addresses(tmp_path, **given).reader_login()


class TestHome:
    @pytest.mark.parametrize(
        ("own", "named"), [(OWN_REDIS, "HEADWATER_KAFKA_BOOTSTRAP_SERVERS"), (OWN_KAFKA, "HEADWATER_REDIS_URL")]
    )
    def test_a_part_alone_makes_none_while_others_should_be_in_it(
        self, tmp_path: Path, own: dict[str, str], named: str
    ) -> None:
        mistyped = tmp_path / "mistyped"
        with pytest.raises(SetupError, match=named):
            addresses(mistyped, **own).make_home()
        assert not mistyped.exists()

    def test_with_parts_of_your_own_it_is_made(self, tmp_path: Path) -> None:
        addresses(tmp_path / "new", **OWN_KAFKA, **OWN_REDIS).make_home()
        assert (tmp_path / "new").is_dir()


class TestSecretKey:
    def test_it_is_made_once(self, tmp_path: Path) -> None:
        assert addresses(tmp_path).secret_key() == addresses(tmp_path).secret_key()

    def test_without_a_data_directory_the_setting_is_asked_for(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="Set HEADWATER_SECRET_KEY"):
            addresses(tmp_path / "missing").secret_key()
