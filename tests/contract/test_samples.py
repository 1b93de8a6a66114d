"""Samples of streams, of topics in memory and in a real Kafka."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pytest
from confluent_kafka import Producer

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.kafka_topic_history import KafkaTopicHistory
from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.flow import Source
from headwater.model.trial import Sample, StreamSample
from headwater.services import newest_first
from headwater.services import samples as samples_module
from headwater.services.samples import Samples
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.memory.topic_history import MemoryTopicHistory

TIME_MS = 1_767_323_045_000
PARTITIONS = 3
SOURCE = Source(type="pubsub", chain="base", entity="log")


class Stream(Protocol):
    """A stream with three partitions, to which a test writes."""

    samples: Samples

    def write(self, partition: int, values: Sequence[bytes], time_ms: int = TIME_MS) -> None:
        """Append records, each 1 ms later than the one before."""

    def skip(self, partition: int) -> None:
        """Append an offset without a record."""


class MemoryStream:
    """A stream in memory."""

    def __init__(self) -> None:
        self._history = MemoryTopicHistory()
        self._history.create("stream", PARTITIONS)
        self.samples = _samples("stream", self._history)

    def write(self, partition: int, values: Sequence[bytes], time_ms: int = TIME_MS) -> None:
        for number, value in enumerate(values):
            self._history.append("stream", partition, time_ms + number, value)

    def skip(self, partition: int) -> None:
        self._history.skip("stream", partition, 1)


class KafkaStream:
    """A stream in Kafka."""

    def __init__(self, kafka: KafkaServer, history: KafkaTopicHistory) -> None:
        self._kafka = kafka
        self._topic = kafka.create_topic(kafka.unique("samples"), PARTITIONS)
        self.samples = _samples(self._topic, history)

    def write(self, partition: int, values: Sequence[bytes], time_ms: int = TIME_MS) -> None:
        for number, value in enumerate(values):
            self._kafka.produce(self._topic, [value], partition=partition, timestamp_ms=time_ms + number)

    def skip(self, partition: int) -> None:
        """Commit an empty transaction, which leaves a control record only."""
        access = self._kafka.access
        settings = {"transactional.id": self._kafka.unique("samples"), "delivery.timeout.ms": 10_000}
        producer = Producer(producer_settings(access, ClientErrors(access), 0) | settings)
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(self._topic, b"aborted", partition=partition)
        producer.flush(WAIT_S)
        producer.abort_transaction(WAIT_S)


def _samples(topic: str, history: Any) -> Samples:
    return Samples(Bindings({"base.log": KafkaTopic(topic)}), {None: history}, lambda: 0.0)


@pytest.fixture(params=["memory", "kafka"])
def stream(request: pytest.FixtureRequest) -> Iterator[Stream]:
    if request.param == "memory":
        yield MemoryStream()
        return
    kafka: KafkaServer = request.getfixturevalue("kafka")
    history = KafkaTopicHistory(kafka.access)
    yield KafkaStream(kafka, history)
    history.close()


def read(stream: Stream, **sample: Any) -> Sample:
    return stream.samples.read(SOURCE, StreamSample.model_validate(sample))


def values(sample: Sample) -> list[bytes | None]:
    return [record.value for record in sample.records]


def test_the_newest_records_of_all_partitions(stream: Stream) -> None:
    stream.write(0, [b"0", b"1", b"2"], TIME_MS)
    stream.write(1, [b"3", b"4"], TIME_MS + 10)
    stream.write(0, [b"5"], TIME_MS + 20)
    sample = read(stream, last=4)
    assert (values(sample), sample.requested, sample.reason) == ([b"2", b"3", b"4", b"5"], 4, "")
    assert (len(read(stream, last=10).records), read(stream, last=10).reason) == (6, "the stream has no more records")


def test_records_from_a_time_on(stream: Stream) -> None:
    stream.write(0, [b"0", b"1", b"2"], TIME_MS)
    stream.write(1, [b"3", b"4"], TIME_MS + 10)
    sample = read(stream, **{"from": "2026-01-02T03:04:05.001Z", "count": 3})
    assert (values(sample), sample.reason) == ([b"1", b"2", b"3"], "")
    assert read(stream, **{"from": "2027-01-02T03:04:05Z", "count": 3}).records == []


def test_older_records_behind_the_first_from_a_time_on_are_left_out(stream: Stream) -> None:
    for late, early in ((b"0", b"1"), (b"2", b"3")):
        stream.write(0, [late], TIME_MS)
        stream.write(0, [early], TIME_MS - 1)
    sample = read(stream, **{"from": "2026-01-02T03:04:05Z", "count": 3})
    assert values(sample) == [b"0", b"2"]
    assert sample.reason.startswith("the stream has no more records from this time on")


def test_positions(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "MAX_GAP", 3)
    stream.write(0, [b"%d" % n for n in range(20)])
    stream.write(2, [b"x", b"y"])
    sample = read(stream, positions=["2/1", "0/19", "0/0", "0/1", "0/10", "0/1"])
    assert (values(sample), sample.requested, sample.reason) == ([b"y", b"19", b"0", b"1", b"10"], 5, "")


def test_positions_without_records_are_named(stream: Stream) -> None:
    stream.write(0, [b"0"])
    stream.skip(0)
    sample = read(stream, positions=["0/0", "0/1", "0/999999999999", "1/0"])
    assert values(sample) == [b"0"]
    assert sample.reason.startswith("3 records were not read (0/1, 0/999999999999, 1/0)")


def test_large_records_are_left_out(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "MAX_STREAM_SAMPLE_BYTES", 1_500)
    monkeypatch.setattr(newest_first, "MAX_CHUNK_BYTES", 700)
    stream.write(0, [b"%d" % n * 300 for n in range(10)])
    newest = read(stream, last=10)
    assert ([record.offset for record in newest.records], "16 MB" in newest.reason) == ([5, 6, 7, 8, 9], True)
    chosen = read(stream, positions=[f"0/{n}" for n in range(5)])
    assert ([record.offset for record in chosen.records], chosen.reason) == ([0, 1, 2, 3, 4], "")
    assert len(read(stream, positions=[f"0/{n}" for n in range(10)]).records) <= 5


def test_a_stream_without_a_topic() -> None:
    sample = _samples("missing", MemoryTopicHistory()).read(SOURCE, StreamSample.model_validate({"last": 5}))
    assert (sample.records, "no topic yet" in sample.reason) == ([], True)
