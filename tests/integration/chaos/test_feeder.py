"""The feeder writes each record once, at its offset, although its client stalls."""

import pytest

from tests.acceptance.installation import in_background
from tests.chaos import feeder
from tests.chaos.feeder import Feeder
from tests.chaos.load import PARTITIONS, Load
from tests.support.kafka import KafkaServer
from tests.support.waiting import until


def test_replacing_the_producer_neither_loses_nor_repeats_records(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, load = kafka.create_topic(kafka.unique("fed"), PARTITIONS), Load(7, 10)
    monkeypatch.setattr(feeder, "STALLED_AFTER_S", 0.0)
    monkeypatch.setattr(feeder, "SETTLED_S", 1.0)
    fed = Feeder(kafka.plain_settings, topic, load, 5_000)
    with in_background(fed):
        until(lambda: fed.stalls > 1, 60, "the producer was replaced twice")
        monkeypatch.setattr(feeder, "STALLED_AFTER_S", 100.0)
    in_place = sorted(range(fed.count), key=lambda n: n % PARTITIONS)
    assert [record.value() for record in kafka.read_all(topic)] == [load.value(n) for n in in_place]
