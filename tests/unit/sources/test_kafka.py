"""The Kafka source with a consumer and a monitor in memory."""

from collections.abc import Collection

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.consumer import Rebalance
from headwater.brokers.topic_monitor import TopicState
from headwater.errors import BrokerUnavailable, WorkerError
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
    can_assign = True

    def __init__(self, *_: object) -> None:
        self.silent: set[int] = set()
        self.errors: list[PartitionError] = []
        self.requests: list[int] = []
        self.commits: list[dict[int, int]] = []
        self.commits_to_fail = 0
        self.is_committing = False
        self.answers = True
        self.answers_at_once = False
        self.is_closed = False
        self.rebalances = [Rebalance(True, False, PARTITIONS)]

    def fetch(self, *_: object, with_headers: bool) -> FetchedColumns:
        assert not with_headers
        errors, self.errors = self.errors, []
        empty, ints = BytesColumn.of([]), Column("q")
        return FetchedColumns(empty, empty, ints, ints, ints, Column("i"), errors, {})

    def take_rebalances(self) -> list[Rebalance]:
        rebalances, self.rebalances = self.rebalances, []
        return rebalances

    def committed(self, partitions: Collection[int], _timeout_s: float) -> list[PartitionOffset]:
        return [PartitionOffset(partition, POSITION) for partition in partitions]

    def watermarks(self, partition: int, _timeout_s: float) -> tuple[int, int]:
        self.requests.append(partition)
        if partition in self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return FIRST, END

    def incremental_unassign(self, _partitions: object) -> None:
        pass

    def close(self) -> bool:
        self.is_closed = True
        return True

    def subscribe(self) -> None:
        pass

    def incremental_assign(self, _offsets: object) -> None:
        if self.can_assign:
            return
        raise KafkaException(KafkaError(KafkaError._STATE))

    def seek(self, _offsets: object) -> None:
        pass

    def start_commit(self, offsets: Collection[PartitionOffset]) -> None:
        assert not self.is_committing
        self.commits.append({each.partition: each.offset for each in offsets})
        self.is_committing = True

    def finish_commit(self, timeout_s: float) -> bool:
        if self.is_committing and (timeout_s or self.answers_at_once) and self.answers:
            self.is_committing = False
            if self.commits_to_fail:
                self.commits_to_fail -= 1
                raise KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS))
        return not self.is_committing


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

    def reachable_for_s(self) -> float:
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


class TestCommits:
    """One commit is outstanding at a time.

    librdkafka repeats failed requests, and would otherwise overwrite later positions.
    """

    def test_a_commit_that_waits_first_waits_for_the_outstanding_one(
        self, source: KafkaSource, consumer: Consumer
    ) -> None:
        source.commit({0: 6, 1: 6}, wait=False)
        source.commit({0: 7}, wait=False)
        assert consumer.commits == [{0: 6, 1: 6}]
        source.commit({}, wait=True)
        assert (consumer.commits, consumer.is_committing) == ([{0: 6, 1: 6}, {0: 7}], False)

    def test_nothing_is_sent_when_everything_is_committed(self, source: KafkaSource, consumer: Consumer) -> None:
        source.commit({0: 6}, wait=True)
        source.commit({}, wait=True)
        assert consumer.commits == [{0: 6}]

    @pytest.mark.parametrize("wait", [True, False])
    def test_a_failed_commit_is_repeated_with_newer_positions(
        self, source: KafkaSource, consumer: Consumer, wait: bool
    ) -> None:
        source.commit({0: 6, 1: 6}, wait=False)
        consumer.commits_to_fail, consumer.answers_at_once = 1, True
        source.commit({0: 7}, wait=wait)
        source.commit({}, wait=True)
        assert consumer.commits == [{0: 6, 1: 6}, {0: 7, 1: 6}]

    def test_a_commit_that_waits_raises_an_error_until_it_has_succeeded(
        self, source: KafkaSource, consumer: Consumer
    ) -> None:
        consumer.commits_to_fail = 1
        with pytest.raises(BrokerUnavailable):
            source.commit({0: 6}, wait=True)
        consumer.answers = False
        with pytest.raises(BrokerUnavailable):
            source.commit({}, wait=True)
        consumer.answers = True
        source.commit({}, wait=True)
        assert consumer.commits == [{0: 6}, {0: 6}]

    def test_positions_of_revoked_partitions_are_not_committed(self, source: KafkaSource, consumer: Consumer) -> None:
        source.commit({0: 6, 1: 6}, wait=False)
        consumer.commits_to_fail = 1
        consumer.rebalances.append(Rebalance(False, False, [1]))
        poll(source)
        source.commit({}, wait=True)
        assert consumer.commits == [{0: 6, 1: 6}, {0: 6}]

    def test_a_consumer_whose_commit_gets_no_response_is_replaced(
        self, source: KafkaSource, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kafka, "COMMIT_STUCK_AFTER_S", 0)
        source.commit({0: 6}, wait=False)
        poll(source)
        assert consumer.is_closed


def test_a_client_that_can_not_answer_a_rebalance_ends_the_worker(source: KafkaSource, consumer: Consumer) -> None:
    consumer.can_assign = False
    consumer.rebalances.append(Rebalance(True, False, []))
    with pytest.raises(WorkerError, match="can't apply a new assignment"):
        poll(source)
