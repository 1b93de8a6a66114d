"""The settings of a Kafka consumer come from a deployment."""

import sys

import msgspec
import pytest

from headwater_client import MissingExtra
from headwater_client.consumer import ConsumedRecord, kafka_settings
from headwater_client.models.deployment import Deployment
from tests.support.example_api import operations

EXAMPLE = operations()["getDeployment"][2]["responses"]["200"]["content"]["application/json"]["example"]


@pytest.fixture
def deployment() -> Deployment:
    return msgspec.convert(EXAMPLE, Deployment)


def test_the_settings_of_a_sink(deployment: Deployment) -> None:
    settings = kafka_settings(deployment.sink("transfers"), "reports", "latest", {"fetch.min.bytes": 1})
    assert settings["bootstrap.servers"] == "127.0.0.1:19092"
    assert settings["group.id"] == "dep-01ke0a3c6w2z4x8v9b1n5m7q0k.reports"
    assert settings["auto.offset.reset"] == "latest"
    assert settings["isolation.level"] == "read_committed"
    assert settings["fetch.min.bytes"] == 1


def test_a_listener_without_login(deployment: Deployment) -> None:
    sink = msgspec.structs.replace(deployment.sink(), sasl_mechanism=None, username=None, password=None)
    assert not [name for name in kafka_settings(sink, "main", "earliest", {}) if name.startswith("sasl")]


def test_the_dead_letters_are_a_sink_too(deployment: Deployment) -> None:
    assert deployment.sink("dlq").topic == "flow.01ke0a2x8rv5c3m7qd9t4jw6hz.dlq"
    with pytest.raises(KeyError, match=r"no sink 'other' with a topic. It has: transfers, dlq"):
        deployment.sink("other")


def test_the_kafka_client_is_not_installed(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtra, match=r"pip install 'headwater-client\[kafka\]'"):
        next(deployment.consume("transfers"))


def test_a_consumed_record_keeps_all_digits() -> None:
    headers = {"headwater-src": b"stream.base.log/2/4711/0"}
    record = ConsumedRecord("t", 0, 1, None, None, b'{"n": 123456789012345678901234567890}', headers)
    assert record.record == {"n": 123456789012345678901234567890}
    assert record.source == "stream.base.log/2/4711/0"
