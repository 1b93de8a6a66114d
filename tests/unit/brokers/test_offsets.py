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
        self.learned = 0

    def list_topics(self, timeout: float) -> None:
        assert timeout > 0
        self.learned += 1

    def list_offsets(self, asked: Iterable[TopicPartition], **_: object) -> dict[TopicPartition, Future[Any]]:
        return {place: self._answer(place.partition) for place in asked}

    def _answer(self, partition: int) -> Future[Any]:
        answer: Future[Any] = Future()
        if partition == 1 and self.learned < self._until:
            answer.set_exception(KafkaException(KafkaError(self._error)))
        else:
            answer.set_result(ListOffsetsResultInfo(100 + partition, -1, -1))
        return answer


def asked(cluster: Cluster, timeout_s: float = 5, absent: frozenset[int] = frozenset()) -> dict[tuple[str, int], int]:
    places = dict.fromkeys([TopicPartition("t", 0), TopicPartition("t", 1)], LATEST)
    return list_offsets(cast("AdminClient", cluster), places, IsolationLevel.READ_COMMITTED, timeout_s, absent)


def test_a_partition_whose_leader_moved_is_retried_after_a_metadata_request() -> None:
    assert asked(Cluster(MOVED, until=2)) == {("t", 0): 100, ("t", 1): 101}


def test_a_partition_without_leader_is_an_error_after_the_timeout() -> None:
    with pytest.raises(KafkaException) as caught:
        asked(Cluster(MOVED, until=10**9), timeout_s=0.1)
    assert caught.value.args[0].code() == MOVED


def test_other_errors_are_raised_immediately() -> None:
    cluster = Cluster(GONE, until=10**9)
    with pytest.raises(KafkaException):
        asked(cluster)
    assert not cluster.learned


def test_optional_partitions_are_omitted() -> None:
    assert asked(Cluster(GONE, until=10**9), absent=frozenset({GONE})) == {("t", 0): 100}
