"""Time limits of reads of Kafka topics."""

from collections.abc import Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest

from headwater.brokers import kafka_topic_history
from headwater.brokers.kafka_topic_history import MAX_CONSUMERS, REQUEST_TIMEOUT_S, KafkaTopicHistory
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
    for timeout_s in [20.0, 10.0] * MAX_CONSUMERS:
        begun = clock.now
        with pytest.raises(BrokerUnavailable, match=f"did not return the records of {TOPIC} in time"):
            history.read(TOPIC, RANGES, 1_000, timeout_s)
        assert clock.now - begun == timeout_s


def test_a_read_does_not_wait_for_ever_for_a_consumer(history: KafkaTopicHistory) -> None:
    for _ in range(MAX_CONSUMERS):
        history._slots.acquire()
    with pytest.raises(BrokerUnavailable, match=r"Other requests have used all 4 readers .* for 0\.2 s"):
        history.read(TOPIC, RANGES, 1_000, 0.2)


@pytest.mark.parametrize("timeout_s", [1.0, 3.0, 30.0])
def test_all_requests_for_offsets_share_the_time(
    history: KafkaTopicHistory, monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    clock = Clock()

    def partitions(*arguments: Any) -> list[int]:
        clock.now += min(arguments[-1], 2)
        return [0]

    def offsets(*arguments: Any) -> dict[tuple[str, int], int]:
        clock.now += arguments[-1]
        return {(TOPIC, 0): 0}

    monkeypatch.setattr(kafka_topic_history, "time", clock)
    monkeypatch.setattr(kafka_topic_history, "partition_numbers", partitions)
    monkeypatch.setattr(kafka_topic_history, "list_offsets", offsets)
    for call in (history.ranges, lambda topic, limit_s: history.offsets_since(topic, 0, limit_s)):
        begun = clock.now
        call(TOPIC, timeout_s)
        assert clock.now - begun <= min(timeout_s + 0.1, 2 + 2 * REQUEST_TIMEOUT_S)
