"""Offsets of partitions whose leader has changed since the client's last metadata request."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, cast

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo

from headwater.brokers.offsets import LATEST, list_offsets

MOVED = KafkaError.NOT_LEADER_FOR_PARTITION
GONE = KafkaError.UNKNOWN_TOPIC_OR_PART


class Cluster:
    """A fake AdminClient.

    Partition 1 has the error until the metadata was requested several times.
    """

    def __init__(self, error: int, until: int) -> None:
        self._error, self._until = error, until
        self.metadata_requests = 0

    def list_topics(self, timeout: float) -> None:
        assert timeout > 0
        self.metadata_requests += 1

    def list_offsets(self, partitions: Iterable[TopicPartition], **_: object) -> dict[TopicPartition, Future[Any]]:
        return {partition: self._response(partition.partition) for partition in partitions}

    def _response(self, partition: int) -> Future[Any]:
        response: Future[Any] = Future()
        if partition == 1 and self.metadata_requests < self._until:
            response.set_exception(KafkaException(KafkaError(self._error)))
        else:
            response.set_result(ListOffsetsResultInfo(100 + partition, -1, -1))
        return response


def end_offsets(
    cluster: Cluster, timeout_s: float = 5, ignored_errors: frozenset[int] = frozenset()
) -> dict[tuple[str, int], int]:
    specs = dict.fromkeys([TopicPartition("t", 0), TopicPartition("t", 1)], LATEST)
    return list_offsets(cast("AdminClient", cluster), specs, IsolationLevel.READ_COMMITTED, timeout_s, ignored_errors)


def test_a_partition_whose_leader_moved_is_retried_after_a_metadata_request() -> None:
    assert end_offsets(Cluster(MOVED, until=2)) == {("t", 0): 100, ("t", 1): 101}


def test_a_partition_without_leader_is_an_error_after_the_timeout() -> None:
    with pytest.raises(KafkaException) as caught:
        end_offsets(Cluster(MOVED, until=10**9), timeout_s=0.1)
    assert caught.value.args[0].code() == MOVED


def test_retries_get_the_time_that_is_left() -> None:
    timeouts: list[float] = []

    class Slow(Cluster):
        def list_offsets(
            self, partitions: Iterable[TopicPartition], **options: Any
        ) -> dict[TopicPartition, Future[Any]]:
            timeouts.append(options["request_timeout"])
            return super().list_offsets(partitions)

    end_offsets(Slow(MOVED, until=3), timeout_s=5)
    assert len(timeouts) == 4
    assert 5 >= timeouts[0] > timeouts[1] > timeouts[2] > timeouts[3] > 0


def test_other_errors_are_raised_immediately() -> None:
    cluster = Cluster(GONE, until=10**9)
    with pytest.raises(KafkaException):
        end_offsets(cluster)
    assert not cluster.metadata_requests


def test_optional_partitions_are_omitted() -> None:
    assert end_offsets(Cluster(GONE, until=10**9), ignored_errors=frozenset({GONE})) == {("t", 0): 100}
