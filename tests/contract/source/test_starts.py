"""A Kafka source with external start positions."""

import pytest

from headwater.errors import RedisUnavailable, WorkerError
from headwater.sources.base import Positions
from tests.support.sources import KafkaBench, joined, read

VALUES = [b"0", b"1", b"2"]


def test_reading_starts_at_the_given_offsets(kafka_bench: KafkaBench) -> None:
    for partition in (0, 1):
        kafka_bench.append(partition, VALUES)
    asked = []

    def starts(partitions: list[int], topic_id: str) -> Positions:
        asked.append((partitions, topic_id))
        return {0: 2}

    source = kafka_bench.starting(starts)
    joined(source)
    found = read(source, 4)
    assert sorted(found) == [(0, 2, b"2"), (1, 0, b"0"), (1, 1, b"1"), (1, 2, b"2")]
    assert [sorted(partitions) for partitions, _ in asked] == [[0, 1]]
    assert all(topic_id for _, topic_id in asked)


def test_reading_starts_at_the_first_record_if_the_offset_is_beyond_the_end(kafka_bench: KafkaBench) -> None:
    """The topic has lost records since then, so its current records are new."""
    kafka_bench.append(0, VALUES)
    source = kafka_bench.starting(lambda _partitions, _topic_id: {0: 99, 1: 0})
    joined(source)
    assert read(source, 3) == [(0, 0, b"0"), (0, 1, b"1"), (0, 2, b"2")]


def test_the_source_ends_if_start_offsets_cannot_be_read(kafka_bench: KafkaBench) -> None:
    def starts(_partitions: list[int], _topic_id: str) -> Positions:
        raise RedisUnavailable("Valkey is away.")

    source = kafka_bench.starting(starts)
    with pytest.raises(WorkerError, match="Valkey is away"):
        joined(source)
