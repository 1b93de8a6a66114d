"""The Kafka source with a consumer and a monitor in memory."""

from collections.abc import Collection

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.consumer import Rebalance
from headwater.brokers.topic_monitor import TopicState
from headwater.model.access import KafkaAccess
from headwater.native import BytesColumn
from headwater.native.ffi import Column
from headwater.native.librdkafka import FetchedColumns, PartitionError, PartitionOffset
from headwater.sources import kafka
from headwater.sources.base import Gap
from headwater.sources.kafka import KafkaSource
from tests.unit.sources.test_memory import Quiet

PARTITIONS = [0, 1]
POSITION, FIRST, END = 5, 7, 9


class Consumer:
    """A member with both partitions at POSITION.

    The leaders of the partitions in `silent` do not answer.
    """

    fatal = None

    def __init__(self, *_: object) -> None:
        self.silent: set[int] = set()
        self.errors: list[PartitionError] = []
        self.requests: list[int] = []
        self._rebalances = [Rebalance(True, False, PARTITIONS)]

    def fetch(self, *_: object, with_headers: bool) -> FetchedColumns:
        assert not with_headers
        errors, self.errors = self.errors, []
        empty, ints = BytesColumn.of([]), Column("q")
        return FetchedColumns(empty, empty, ints, ints, ints, Column("i"), errors, {})

    def take_rebalances(self) -> list[Rebalance]:
        rebalances, self._rebalances = self._rebalances, []
        return rebalances

    def committed(self, partitions: Collection[int], _timeout_s: float) -> list[PartitionOffset]:
        return [PartitionOffset(partition, POSITION) for partition in partitions]

    def watermarks(self, partition: int, _timeout_s: float) -> tuple[int, int]:
        self.requests.append(partition)
        if partition in self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return FIRST, END

    def subscribe(self) -> None:
        pass

    def assign(self, _offsets: object) -> None:
        pass

    def seek(self, _offsets: object) -> None:
        pass

    def take_commit_failures(self) -> list[object]:
        return []


class Monitor:
    """Describes a topic whose partitions have leaders."""

    state = TopicState("id", PARTITIONS, frozenset())

    def __init__(self, *_: object) -> None:
        pass

    def describe(self) -> TopicState:
        return self.state

    def poll(self) -> None:
        pass

    def unreachable_for_s(self) -> float:
        return 0.0

    def request_end_offsets(self, _partitions: object) -> "Monitor":
        return self

    def done(self) -> bool:
        return False


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    consumer = Consumer()
    monkeypatch.setattr(kafka, "LibrdkafkaConsumer", lambda *_: consumer)
    monkeypatch.setattr(kafka, "TopicMonitor", Monitor)
    return consumer


@pytest.fixture
def source(consumer: Consumer) -> KafkaSource:
    source = KafkaSource(KafkaAccess(bootstrap_servers="127.0.0.1:1"), "t", "g")
    source.join(Quiet())
    assert consumer.errors == []
    poll(source)
    return source


def poll(source: KafkaSource) -> None:
    """Poll, and handle what the poll has returned: the source does so at its next poll."""
    for _ in range(2):
        source.poll(1, 0)


def out_of_range(partition: int) -> PartitionError:
    return PartitionError(KafkaError._AUTO_OFFSET_RESET, partition, POSITION, "offset out of range")


class TestOutOfRange:
    def test_a_leader_that_does_not_answer_does_not_delay_another_partition(
        self, source: KafkaSource, consumer: Consumer
    ) -> None:
        consumer.silent, consumer.errors = {0}, [out_of_range(0)]
        poll(source)
        assert source.unreadable().keys() == {0}
        consumer.errors = [out_of_range(1)]
        poll(source)
        assert source.take_gaps() == [Gap("t", 1, POSITION, FIRST)]
        assert source.unreadable().keys() == {0}

    def test_one_poll_waits_for_one_silent_leader_at_most(self, source: KafkaSource, consumer: Consumer) -> None:
        consumer.silent, consumer.errors = {0, 1}, [out_of_range(0), out_of_range(1)]
        poll(source)
        assert consumer.requests == [0]
        source.poll(1, 0)
        assert consumer.requests == [0, 1]
        source.poll(1, 0)
        assert consumer.requests == [0, 1]
