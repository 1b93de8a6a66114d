"""Calls of a group's member while the broker runs and answers nothing."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.brokers.client import ClientErrors, consumer_settings
from headwater.brokers.consumer import Consumer
from headwater.brokers.embedded import EmbeddedKafka
from headwater.errors import BrokerUnavailable
from headwater.sources import kafka as kafka_source
from headwater.sources.kafka import KafkaSource
from tests.support.kafka import CACHE_DIR, KafkaServer, server
from tests.support.sources import joined

RETURNS_WITHIN_S = 60.0
"""Longer than the limits of all calls together; a call that hangs does not return at all."""


class SilentKafka:
    """A broker of one test that can be stopped."""

    def __init__(self, data_dir: Path) -> None:
        embedded = EmbeddedKafka(data_dir, CACHE_DIR)
        embedded.prepare()
        self._child = embedded.start()
        embedded.wait_ready(self._child)
        self.server: KafkaServer = server(embedded)

    def stop(self) -> None:
        self._child.send(signal.SIGSTOP)

    def close(self) -> None:
        self._child.send(signal.SIGCONT)
        self._child.stop(15)


@pytest.fixture
def silent_kafka(tmp_path: Path) -> Iterator[SilentKafka]:
    broker = SilentKafka(tmp_path / "kafka")
    yield broker
    broker.close()


@pytest.mark.timeout(2 * RETURNS_WITHIN_S)
def test_a_commit_and_the_end_of_a_member_return(silent_kafka: SilentKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "COMMIT_S", 1.0)
    kafka = silent_kafka.server
    topic, group = kafka.create_topic(kafka.unique("stream")), kafka.unique("group")
    kafka.produce(topic, [b"a"])
    kafka.commit(group, topic, {0: 0})
    source = KafkaSource(kafka.access, topic, group, "slot-0")
    joined(source)
    silent_kafka.stop()
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="does not answer"):
        source.commit({0: 1}, wait=True)
    source.close()
    assert time.monotonic() - began < RETURNS_WITHIN_S


def test_a_member_that_has_not_joined_yet_ends(silent_kafka: SilentKafka) -> None:
    kafka = silent_kafka.server
    topic = kafka.create_topic(kafka.unique("stream"))
    silent_kafka.stop()
    member = Consumer(consumer_settings(kafka.access, ClientErrors(kafka.access), kafka.unique("group")), topic)
    member.subscribe()
    assert member.close()
