"""The feeder of the chaos runs: whatever its client does, Kafka gets each record once, in its place."""

import time

import pytest

from tests.acceptance.stack import beside
from tests.chaos import feeder
from tests.chaos.feeder import Feeder
from tests.chaos.load import PARTITIONS, Load
from tests.support.kafka import KafkaServer


def test_begins_anew_without_a_gap_or_a_repeat(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, load = kafka.create_topic(kafka.unique("fed"), PARTITIONS), Load(7, 10)
    monkeypatch.setattr(feeder, "STALLED_AFTER_S", 0.0)
    monkeypatch.setattr(feeder, "SETTLED_S", 0.3)
    one = Feeder(kafka.plain_settings, topic, load, 5_000)
    with beside(one):
        time.sleep(3)
        monkeypatch.setattr(feeder, "STALLED_AFTER_S", 100.0)
    assert one.stalls > 1
    in_place = sorted(range(one.count), key=lambda n: n % PARTITIONS)
    assert [record.value() for record in kafka.read_all(topic)] == [load.value(n) for n in in_place]
