"""Each source under test."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.support.kafka import KafkaServer
from tests.support.sources import Bench, KafkaBench, MemoryBench


@pytest.fixture(params=["memory", "kafka"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "memory":
        yield MemoryBench()
    else:
        with contextlib.closing(KafkaBench(request.getfixturevalue("kafka"))) as kafka_bench:
            yield kafka_bench


@pytest.fixture
def kafka_bench(kafka: KafkaServer) -> Iterator[KafkaBench]:
    with contextlib.closing(KafkaBench(kafka)) as kafka_bench:
        yield kafka_bench
