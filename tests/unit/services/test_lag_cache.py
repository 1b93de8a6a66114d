"""Lags are returned without waiting for Kafka."""

import threading
from collections.abc import Collection, Iterator, Mapping

import pytest

from headwater.brokers.base import TopicOffsets
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.positions import GroupPositions
from headwater.services import optional_reads
from headwater.services.lag_cache import FRESH_S, KEPT_S, LagCache, LagSource, stored_lag
from tests.support.waiting import until

WITHIN_S = 20
TOPIC = "stream.base.log"


class Kafka:
    """Has the lags of groups, and a clock.

    Attributes:
        reads: The groups of each read.
    """

    def __init__(self) -> None:
        self.now = 1_000.0
        self.lags = {"a": 1, "b": 2}
        self.reads: list[Collection[str]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.is_away = False

    def read(self, _cluster: KafkaAccess | None, groups: Collection[str]) -> Mapping[str, int]:
        self.answers.wait(WITHIN_S)
        if self.is_away:
            raise BrokerUnavailable("Kafka does not answer.")
        self.reads.append(groups)
        return {group: self.lags[group] for group in groups if group in self.lags}

    def ends(self, _cluster: KafkaAccess | None, topic: str) -> TopicOffsets | None:
        return TopicOffsets("id", {0: 10, 1: 5}) if topic == TOPIC else None


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture
def lags(kafka: Kafka) -> Iterator[LagCache]:
    known = LagCache(kafka.read, kafka.ends, [None], lambda: kafka.now)
    yield known
    known.close()


def known(lags: LagCache, *groups: str) -> Mapping[str, int]:
    return lags.get({f"d-{group}": LagSource(None, TOPIC, group) for group in groups})


def test_a_lag_is_known_after_it_was_read(kafka: Kafka, lags: LagCache) -> None:
    kafka.answers.clear()
    assert known(lags, "a", "b", "unknown") == {}
    kafka.answers.set()
    until(lambda: known(lags, "a", "b", "unknown") == {"d-a": 1, "d-b": 2}, WITHIN_S, "the lags")
    assert [sorted(groups) for groups in kafka.reads] == [["a", "b", "unknown"]]


def test_groups_that_become_wanted_during_a_read_are_read_next(kafka: Kafka, lags: LagCache) -> None:
    kafka.answers.clear()
    known(lags, "a")
    known(lags, "b")
    kafka.answers.set()
    until(lambda: known(lags, "a", "b") == {"d-a": 1, "d-b": 2}, WITHIN_S, "the lags")


def test_a_fresh_lag_is_not_read_again(kafka: Kafka, lags: LagCache) -> None:
    until(lambda: known(lags, "a") == {"d-a": 1}, WITHIN_S, "the lag")
    kafka.lags["a"] = 7
    kafka.now += FRESH_S - 0.1
    assert known(lags, "a") == {"d-a": 1}
    assert len(kafka.reads) == 1
    kafka.now += 0.1
    assert known(lags, "a") == {"d-a": 1}
    until(lambda: known(lags, "a") == {"d-a": 7}, WITHIN_S, "the new lag")


def test_a_lag_that_can_not_be_read_again_is_forgotten(kafka: Kafka, lags: LagCache) -> None:
    until(lambda: known(lags, "a") == {"d-a": 1}, WITHIN_S, "the lag")
    kafka.is_away = True
    kafka.now += KEPT_S - 0.1
    assert known(lags, "a") == {"d-a": 1}
    kafka.now += 0.1
    assert known(lags, "a") == {}


def test_lags_come_back_with_kafka(kafka: Kafka, lags: LagCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_reads, "UNAVAILABLE_FOR_S", 0.1)
    kafka.is_away = True
    known(lags, "a")
    kafka.is_away = False
    until(lambda: known(lags, "a") == {"d-a": 1}, WITHIN_S, "the lag")


def test_the_lag_of_a_paused_deployment_counts_from_its_stored_positions(kafka: Kafka, lags: LagCache) -> None:
    stored = GroupPositions(topic=TOPIC, topic_id="id", offsets={0: 4, 1: 7})
    paused = {"d1": LagSource(None, TOPIC, "g", stored)}
    until(lambda: lags.get(paused) == {"d1": 6}, WITHIN_S, "the lag")
    assert kafka.reads == []


@pytest.mark.parametrize(
    ("topic", "topic_id", "ends"),
    [
        (TOPIC, "id", None),
        (TOPIC, "other", TopicOffsets("id", {0: 10})),
        ("other", "id", TopicOffsets("id", {0: 10})),
    ],
)
def test_stored_positions_of_another_topic_have_no_lag(topic: str, topic_id: str, ends: TopicOffsets | None) -> None:
    stored = GroupPositions(topic=topic, topic_id=topic_id, offsets={0: 4})
    assert stored_lag(TOPIC, stored, ends) is None
