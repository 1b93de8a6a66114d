"""Time limits of reads of Kafka topics."""

from collections.abc import Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest

from headwater.brokers import kafka_topic_history
from headwater.brokers.kafka_topic_history import MAX_CONSUMERS, READ_TIMEOUT_S, KafkaTopicHistory
from headwater.brokers.topic_history import OffsetRange
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess

TOPIC = "stream.base.log"
RANGES = {0: OffsetRange(0, 1_000)}


class Clock:
    """Replaces the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowRecord:
    """A message of a partition."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"x"

    def headers(self) -> None:
        return None


class SlowConsumer:
    """A consumer that returns a record every five seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offsets = iter(range(1_000))

    def assign(self, _: Sequence[Any]) -> None:
        pass

    def consume(self, *_: Any) -> list[SlowRecord]:
        self._clock.now += 5
        return [SlowRecord(next(self._offsets))]

    def close(self) -> None:
        pass


@pytest.fixture
def history() -> Iterator[KafkaTopicHistory]:
    history = KafkaTopicHistory(KafkaAccess(bootstrap_servers="127.0.0.1:1", security_protocol="PLAINTEXT"))
    yield history
    history.close()


def test_a_slow_read_ends(history: KafkaTopicHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(kafka_topic_history, "time", clock)
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _: SlowConsumer(clock))
    for _ in range(MAX_CONSUMERS + 1):
        begun = clock.now
        with pytest.raises(BrokerUnavailable, match=f"did not return the records of {TOPIC} within 20 s"):
            history.read(TOPIC, RANGES, 1_000)
        assert clock.now - begun == READ_TIMEOUT_S


def test_a_read_does_not_wait_for_ever_for_a_consumer(
    history: KafkaTopicHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topic_history, "CONSUMER_TIMEOUT_S", 0)
    for _ in range(MAX_CONSUMERS):
        history._slots.acquire()
    with pytest.raises(BrokerUnavailable, match="Other requests have used all 4 readers"):
        history.read(TOPIC, RANGES, 1_000)
