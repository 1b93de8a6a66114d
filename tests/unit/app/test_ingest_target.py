"""The preparation of the topics of an ingest."""

import threading
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from headwater.app import run_ingest
from headwater.app.ingest_target import IngestTarget, prepare_target
from headwater.errors import BrokerUnavailable, NodeUnavailable
from headwater.model.access import KafkaAccess
from headwater.settings import Settings
from tests.support.memory.broker import MemoryClusterAdmin
from tests.support.ports import free_port

SETTINGS = Settings(kafka_bootstrap_servers="127.0.0.1:1", kafka_security_protocol="PLAINTEXT")


class _StoppedWhileAway(MemoryClusterAdmin):
    """A broker that is unavailable, and for which the user stops waiting."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def ensure(self, _: object) -> None:
        self._stop.set()
        raise BrokerUnavailable("Kafka does not answer.")


def test_a_stop_while_kafka_is_awaited_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    monkeypatch.setattr("headwater.app.ingest_target.KafkaClusterAdmin", lambda *_, **__: _StoppedWhileAway(stop))
    options: Any = SimpleNamespace(chain="base", name="evm-base", metrics_port=0)
    reader: Any = SimpleNamespace(streams=["log"])
    assert prepare_target(SETTINGS, options, reader, stop) is None
    assert run_ingest.run_ingest(SETTINGS, options, reader, stop).records == {}


def test_a_stop_while_the_writer_connects_is_not_blamed_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, ended = threading.Event(), threading.Event()

    def connect(_: float) -> None:
        stop.set()
        ended.wait(60)

    producer = SimpleNamespace(connect=connect, init_transactions=lambda _: None, close=ended.set)
    monkeypatch.setattr("headwater.app.ingest_target.TransactionalKafkaProducer", lambda *_, **__: producer)
    target = IngestTarget(KafkaAccess(bootstrap_servers="127.0.0.1:1"), {}, "evm-base", stop)
    with pytest.raises(NodeUnavailable, match=r"^The ingest is stopping\.$"), target.open():
        pass


def test_metrics_are_served_on_the_metrics_host(monkeypatch: pytest.MonkeyPatch) -> None:
    port, responses = free_port(), []
    options: Any = SimpleNamespace(chain="base", name="evm-base", metrics_port=port)

    def scrape(*_: object) -> None:
        responses.append(httpx2.get(f"http://127.0.0.2:{port}/metrics"))

    monkeypatch.setattr(run_ingest, "prepare_target", lambda *_: SimpleNamespace(open=None))
    monkeypatch.setattr(run_ingest, "run", scrape)
    reader: Any = None
    settings = Settings(metrics_host="127.0.0.2")
    run_ingest.run_ingest(settings, options, reader, threading.Event())
    assert "headwater_ingest_records" in responses[0].text
