"""The environment variables that workers and the children of `headwater up` inherit."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from headwater.app.data_directory import DataDirectory
from headwater.app.environments import (
    API,
    CONTROLLER,
    INGEST,
    KAFKA_SECRETS,
    PRICES,
    EnvironmentSpec,
    child_environment,
    worker_environment,
)
from headwater.app.ingest_kinds import load_ingest, variables_of
from headwater.errors import SetupError
from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.binding import Bindings, KafkaTopic, PubSubTopic
from headwater.settings import SECRETS, Settings

EVERY_SECRET = {
    "database_url": "postgresql://hw:dbpass@db.example/hw",
    "redis_url": "redis://:valkeypass@valkey.example",
    "secret_key": "the-secret-key",
    "old_secret_key": "the-old-secret-key",
    "kafka_password": "the-kafka-password",
    "kafka_oauth_client_secret": "the-client-secret",
    "kafka_key_password": "the-key-password",
    "kafka_reader_password": "the-readers-password",
}


@pytest.fixture
def home(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in EVERY_SECRET.items():
        monkeypatch.setenv(f"HEADWATER_{name.upper()}", value)
    for name in ("HEADWATER_API_KEY", "HEADWATER_EVM_RPC", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "NODE_URL"):
        monkeypatch.setenv(name, f"secret of {name}")
    monkeypatch.setenv("HEADWATER_LOG_LEVEL", "debug")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def secrets_in(environment: dict[str, str]) -> set[str]:
    return {name for name, value in EVERY_SECRET.items() if value in environment.values()}


def test_this_test_knows_every_secret() -> None:
    assert set(EVERY_SECRET) == SECRETS


@pytest.mark.usefixtures("parent")
class TestChildren:
    @pytest.mark.parametrize(
        ("needs", "secrets"),
        [
            (CONTROLLER, set(EVERY_SECRET) - {"kafka_reader_password"}),
            (API, set(EVERY_SECRET)),
            (PRICES, {"redis_url", *KAFKA_SECRETS}),
            (INGEST, set(KAFKA_SECRETS)),
        ],
    )
    def test_each_process_gets_the_secrets_it_needs(
        self, home: DataDirectory, needs: EnvironmentSpec, secrets: set[str]
    ) -> None:
        environment = child_environment(Settings(), home, needs)
        assert secrets_in(environment) == secrets
        assert environment["HEADWATER_LOG_LEVEL"] == "debug"
        assert environment["LC_ALL"] == "C.UTF-8"
        strangers = {"HEADWATER_API_KEY", "HEADWATER_EVM_RPC", "AWS_SECRET_ACCESS_KEY", "NODE_URL"}
        assert not strangers & set(environment)
        assert ("PGPASSWORD" in environment) == ("database_url" in secrets)

    def test_only_the_controller_knows_the_kubernetes_api(
        self, home: DataDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", "/etc/kubeconfig")
        knowing = [
            spec for spec in (CONTROLLER, API, PRICES) if "KUBECONFIG" in child_environment(Settings(), home, spec)
        ]
        assert knowing == [CONTROLLER]
        assert "KUBECONFIG" not in worker_environment(Bindings())

    def test_workers_get_no_secrets(self) -> None:
        environment = worker_environment(Bindings())
        assert not [name for name in environment if name.startswith(("HEADWATER", "PG", "AWS", "NODE"))]
        assert "PATH" in environment

    def test_workers_get_google_credentials_only_for_pubsub_streams(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/etc/google.json")
        monkeypatch.setenv("https_proxy", "http://user:pass@proxy.example")
        monkeypatch.setenv("grpc_proxy", "http://proxy.example")
        topic = PubSubTopic("projects/p/topics/t", PubSubAccess(project="p"))
        there = worker_environment(Bindings({"base.log": topic}))
        assert {"GOOGLE_APPLICATION_CREDENTIALS", "https_proxy", "grpc_proxy"} <= set(there)
        assert not {"GOOGLE_APPLICATION_CREDENTIALS", "https_proxy"} & set(worker_environment(Bindings()))

    @pytest.mark.parametrize(
        ("mechanism", "wanted"),
        [("SCRAM-SHA-512", set()), ("OAUTHBEARER", {"https_proxy"}), ("AWS_MSK_IAM", {"https_proxy", "AWS_PROFILE"})],
    )
    def test_workers_get_the_variables_for_kafka_authentication(
        self, home: DataDirectory, monkeypatch: pytest.MonkeyPatch, mechanism: str, wanted: set[str]
    ) -> None:
        monkeypatch.setenv("https_proxy", "http://proxy.example")
        monkeypatch.setenv("AWS_PROFILE", "headwater")
        access = KafkaAccess.model_validate({"bootstrap_servers": "b", "sasl_mechanism": mechanism})
        bound = Bindings({"base.log": KafkaTopic("t", access)})
        settings = Settings.model_validate({"kafka_sasl_mechanism": mechanism})
        for environment in (
            child_environment(settings, home, PRICES),
            child_environment(Settings(), home, API, bound),
            worker_environment(bound),
            worker_environment(Bindings(), access),
        ):
            assert {"https_proxy", "AWS_PROFILE"} & set(environment) == wanted

    @pytest.mark.parametrize(
        "name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "OPENSSL_CONF"]
    )
    def test_all_get_the_certificate_authorities(
        self, home: DataDirectory, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "/etc/company.pem")
        assert child_environment(Settings(), home, INGEST)[name] == "/etc/company.pem"
        assert worker_environment(Bindings())[name] == "/etc/company.pem"

    def test_an_ingest_gets_the_variables_that_its_entry_names(self, home: DataDirectory, tmp_path: Path) -> None:
        path = tmp_path / "ingests.json"
        chain = {"type": "evm", "chain": "base"}
        path.write_text(json.dumps({"one": chain | {"rpc": "$NODE_URL"}, "two": chain | {"rpc": "$AWS_SECRET"}}))
        environment = child_environment(Settings(), home, INGEST.with_variables(*variables_of(path, "one")))
        assert environment["NODE_URL"] == "secret of NODE_URL"
        assert "AWS_SECRET_ACCESS_KEY" not in environment

    def test_an_ingest_does_not_need_the_variables_of_the_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NODE_URL", "http://node.example")
        path = tmp_path / "ingests.json"
        chain = {"type": "evm", "chain": "base"}
        path.write_text(json.dumps({"one": chain | {"rpc": "$NODE_URL"}, "two": chain | {"rpc": "$NOT_SET"}}))
        options, _ = load_ingest(path, "one")
        assert options.name == "one"
        with pytest.raises(SetupError, match=r"There is no ingest three\. The file of --ingests has: one, two\."):
            load_ingest(path, "three")

    def test_an_ingest_without_a_file(self) -> None:
        with pytest.raises(SetupError, match="Name the file of the ingests with --ingests"):
            load_ingest(None, "base")


def test_a_secret_from_a_file_is_not_in_the_environment(
    home: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("password").write_text("from-the-file\n")
    monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD_FILE", "password")
    settings = Settings()
    assert settings.kafka_password.get_secret_value() == "from-the-file"
    environment = child_environment(settings, home, PRICES)
    assert environment["HEADWATER_KAFKA_PASSWORD_FILE"] == str(tmp_path / "password")
    assert "HEADWATER_KAFKA_PASSWORD" not in environment
    assert "HEADWATER_KAFKA_PASSWORD_FILE" not in worker_environment(Bindings())


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        data_dir=Path("data"), ingests=Path("ingests.json"), stream_bindings=None, database_url=SecretStr("secret")
    )
    environment = child_environment(settings, DataDirectory(settings.data_dir), CONTROLLER)
    assert environment["HEADWATER_INGESTS"] == str(tmp_path / "ingests.json")
    assert environment["HEADWATER_DATA_DIR"] == str(tmp_path / "data")
    assert environment["HEADWATER_DATABASE_URL"] == "secret"
