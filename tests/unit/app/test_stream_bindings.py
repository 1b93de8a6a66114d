"""The stream bindings file, and the positions of its errors."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.app.stream_bindings import load_bindings, stream_topic, zerolag_topic
from headwater.errors import SetupError
from headwater.model.binding import KafkaTopic, PubSubTopic
from headwater.settings import Settings

KAFKA = {"topic": "logs", "bootstrap_servers": "b:1", "username": "ann"}


def settings(folder: Path, document: Any) -> Settings:
    path = folder / "streams.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return Settings(stream_bindings=path)


def test_a_password_in_a_separate_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    given = settings(tmp_path, {"base.log": {"kafka": KAFKA | {"password_file": "password"}}})
    binding = load_bindings(given).find("base", "log")
    assert isinstance(binding, KafkaTopic)
    assert binding.access is not None
    assert binding.access.password == "secret"
    assert "secret" not in repr(binding)


def test_secrets_and_files_are_relative_to_the_bindings_file(tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem", "idp.pem"):
        (tmp_path / name).touch()
    (tmp_path / "client-secret").write_text("geheim-1\n")
    (tmp_path / "key-password").write_text("geheim-2\n")
    kafka = {
        "topic": "logs",
        "bootstrap_servers": "b:1",
        "sasl_mechanism": "OAUTHBEARER",
        "oauth_token_endpoint_url": "https://idp.example/token",
        "oauth_client_id": "headwater",
        "oauth_client_secret_file": "client-secret",
        "oauth_ca_file": "idp.pem",
        "ca_file": "ca.pem",
        "certificate_file": "cert.pem",
        "key_file": "key.pem",
        "key_password_file": "key-password",
    }
    (access,) = load_bindings(settings(tmp_path, {"base.log": {"kafka": kafka}})).kafka_accesses()
    assert (access.oauth_client_secret, access.key_password) == ("geheim-1", "geheim-2")
    files = (access.ca_file, access.certificate_file, access.key_file, access.oauth_ca_file)
    assert files == tuple(str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem", "idp.pem"))
    assert "geheim" not in repr(access)


def test_credentials_in_a_separate_file(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text("{}")
    pubsub = {"project": "project-1", "topic": "logs", "credentials_file": "key.json"}
    binding = load_bindings(settings(tmp_path, {"base.log": {"pubsub": pubsub}})).find("base", "log")
    assert isinstance(binding, PubSubTopic)
    assert binding.access.credentials_file == str(tmp_path / "key.json")


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ("{", "can't be read"),
        ([], "the file: Input should be a valid dictionary"),
        ({"base.lgo": "x"}, "base.lgo: is not a stream"),
        ({"base.log": {"kafka": KAFKA}}, "base.log, kafka: sasl_mechanism SCRAM-SHA-512 needs password"),
        ({"base.log": {"kafka": KAFKA | {"password_file": "none"}}}, "base.log, kafka, password_file: .*No such file"),
        (
            {"base.log": {"kafka": KAFKA | {"ca_file": "none", "password": "y"}}},
            "base.log, kafka, ca_file: .*No such file",
        ),
        ({"base.log": {"kafka": KAFKA | {"password_file": 7}}}, "password_file: Extra inputs are not permitted"),
        ({"base.log": {"kafka": KAFKA | {"password_file": "x", "password": "y"}}}, "and not both"),
        ({"base.log": {"pubsub": {"project": "project-1", "tpoic": "x"}}}, "base.log, pubsub, tpoic: Extra inputs"),
        (
            {"base.log": {"pubsub": {"project": "project-1", "topic": "logs", "credentials_file": "none"}}},
            "base.log, pubsub, credentials_file: .*No such file",
        ),
    ],
)
def test_faults_and_where_they_are(tmp_path: Path, document: Any, fault: str) -> None:
    with pytest.raises(SetupError, match=fault) as raised:
        load_bindings(settings(tmp_path, document))
    assert "streams.json" in raised.value.detail


def test_no_password_in_an_error(tmp_path: Path) -> None:
    bad = {"base.log": {"kafka": KAFKA | {"password": "geheim", "security_protocol": "TLS"}}}
    with pytest.raises(SetupError) as raised:
        load_bindings(settings(tmp_path, bad))
    assert "geheim" not in raised.value.detail


def test_without_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.pubsub_v1", None)
    given = settings(tmp_path, {"base.log": {"pubsub": {"project": "project-1", "topic": "logs"}}})
    with pytest.raises(SetupError, match="needs the extra `pubsub`"):
        load_bindings(given)


def test_streams_that_others_write(tmp_path: Path) -> None:
    kafka = KAFKA | {"password": "pw"}
    pubsub = {"project": "project-1", "topic": "logs"}
    bindings = load_bindings(settings(tmp_path, {"base.log": {"kafka": kafka}, "polygon.log": {"pubsub": pubsub}}))
    with pytest.raises(SetupError, match="another Kafka cluster"):
        stream_topic(bindings, "base", "log")
    with pytest.raises(SetupError, match=r"Pub/Sub \(projects/project-1/topics/logs\)"):
        stream_topic(bindings, "polygon", "log")
    assert stream_topic(bindings, "base", "decoded_log") == "stream.base.decoded_log"


def test_zerolag_streams(tmp_path: Path) -> None:
    pubsub = {"project": "project-1", "topic": "logs"}
    document = {"base.log.zerolag": "fast", "polygon.log.zerolag": {"pubsub": pubsub}}
    bindings = load_bindings(settings(tmp_path, document))
    assert zerolag_topic(bindings, "base", "log") == "fast"
    assert zerolag_topic(bindings, "base", "decoded_log") == "stream.base.decoded_log.zerolag"
    with pytest.raises(SetupError, match="Pub/Sub"):
        zerolag_topic(bindings, "polygon", "log")
