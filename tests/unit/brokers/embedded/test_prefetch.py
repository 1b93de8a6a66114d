"""The run of a broker that fills the AOT cache."""

from pathlib import Path

import pytest

from headwater import children
from headwater.brokers.embedded import broker
from headwater.brokers.embedded.java import MIN_AOT_VERSION, Java
from headwater.brokers.embedded.runtime import KafkaRuntime
from headwater.errors import SetupError


def test_a_broker_that_does_not_become_ready_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[children.Child]()

    def start(_: object, **__: object) -> children.Child:
        started.append(children.spawn(["/bin/sh", "-c", "exec sleep 60"]))
        return started[0]

    def fail(*_: object) -> None:
        raise SetupError("Kafka did not become ready.")

    runtime = KafkaRuntime(Java(tmp_path / "java", MIN_AOT_VERSION, ""), (), tmp_path / "cache" / "kafka.aot")
    monkeypatch.setattr(broker, "find_runtime", lambda *_: runtime)
    monkeypatch.setattr(broker.EmbeddedKafka, "prepare", lambda _: None)
    monkeypatch.setattr(broker.EmbeddedKafka, "start", start)
    monkeypatch.setattr(broker.EmbeddedKafka, "wait_ready", fail)
    with pytest.raises(SetupError, match="did not become ready"):
        broker.prefetch(tmp_path / "cache")
    assert started[0].poll() is not None
