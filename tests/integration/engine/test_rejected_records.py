"""Records that Kafka rejects permanently become dead letters.

All other records are delivered in order.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import TopicPartition

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.producer import LibrdkafkaProducer
from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.delivery import Delivery
from headwater.engine.exactly_once import ExactlyOnce
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.model.flow import DeliveryMode
from headwater.native import BytesColumn
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.kafka import KafkaSink
from headwater.sinks.transactional_producer import TransactionalKafkaProducer
from headwater.sources.kafka import KafkaSource
from tests.integration.engine.harness import headers, origins
from tests.support.columns import numbers
from tests.support.kafka import KafkaServer
from tests.support.memory.metrics import MemoryMetrics

WAIT_S = 120.0
MODES = ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)]
Text = bytes | None


class CopyingWorker:
    """A worker in this process that copies the records of a topic with one partition.

    Attributes:
        made: For each created producer, whether it sends each record in its own batch.
    """

    def __init__(self, kafka: KafkaServer, mode: DeliveryMode, sink_config: dict[str, str] | None = None) -> None:
        self.kafka = kafka
        self.stream = kafka.create_topic(kafka.unique("stream"))
        self.sink = kafka.create_topic(kafka.unique("sink"), 1, sink_config)
        self.dead = kafka.create_topic(kafka.unique("dlq"))
        self.made: list[bool] = []
        self._id = kafka.unique("tx")
        self._group = group = kafka.unique("wrk")
        kafka.commit(group, self.stream, {0: 0})
        self.source = KafkaSource(kafka.access, self.stream, group, instance_id="slot-0")
        metrics = PipelineMetrics(MetricsWriter(MemoryMetrics(), deployment_id="d1", group=group, writer_id="0"))
        self.worker = Worker(self.source, [], self._delivery(mode), metrics)

    def _delivery(self, mode: DeliveryMode) -> Delivery:
        sinks, dead_letters = [KafkaSink("out", self.sink)], DeadLetterWriter(self.dead, 1)
        if mode == "at_least_once":
            return AtLeastOnce(sinks, dead_letters, self._plain)
        return ExactlyOnce(sinks, dead_letters, self._transactional, group_metadata=self.source.group_metadata)

    def _plain(self, one_record_per_batch: bool) -> IdempotentKafkaProducer:
        self.made.append(one_record_per_batch)
        return IdempotentKafkaProducer(
            self.kafka.access, [self.sink, self.dead], one_record_per_batch=one_record_per_batch
        )

    def _transactional(self, one_record_per_batch: bool) -> TransactionalKafkaProducer:
        self.made.append(one_record_per_batch)
        topics = [self.sink, self.dead]
        return TransactionalKafkaProducer(
            self.kafka.access,
            topics,
            source_topic=self.stream,
            transactional_id=self._id,
            one_record_per_batch=one_record_per_batch,
        )

    def run_to(self, position: int) -> None:
        """Run the worker until the group has committed this offset.

        The offset is read by another consumer, since the worker's consumer would wait for the transaction that this
        thread must end.
        """
        place = TopicPartition(self.stream, 0)
        with self.kafka.consumer(group=self._group, more={"isolation.level": "read_uncommitted"}) as consumer:
            self._work_until(
                lambda: consumer.committed([place], WAIT_S)[0].offset == position, f"stored the position {position}"
            )

    def run_to_an_ordinary_producer(self) -> None:
        """Run the worker until it uses an ordinary producer, which it does after the commit."""
        self._work_until(lambda: not self.made[-1], "renewed its producer")

    def _work_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"the worker has not {what} in {WAIT_S:g} s"
            for _ in range(10):
                self.worker.run_once()

    def check(self, expected: Sequence[Text], dead: Sequence[Text], *, repeats: bool) -> list[dict[str, str]]:
        """Assert that each record is an output or a dead letter, in order.

        Return the headers of the dead letters.
        """
        for topic, values in ((self.sink, expected), (self.dead, dead)):
            records = self.kafka.read_all(topic)
            first = dict(zip(reversed(origins(records)), [record.value() for record in reversed(records)], strict=True))
            names = [*dict.fromkeys(origins(records))]
            assert [first[name] for name in names] == list(values)
            assert repeats or len(names) == len(records)
        return [headers(record) for record in self.kafka.read_all(self.dead)]


@contextlib.contextmanager
def copying(
    kafka: KafkaServer, mode: DeliveryMode, sink_config: dict[str, str] | None = None
) -> Iterator[CopyingWorker]:
    copier = CopyingWorker(kafka, mode, sink_config)
    try:
        copier.worker.start()
        yield copier
    finally:
        copier.worker.close()


@pytest.mark.parametrize("mode", MODES)
class TestRejectedRecords:
    @pytest.mark.parametrize("keyless", [{7}, {7, 30, 31}])
    def test_records_without_key_on_a_compacted_topic(
        self, kafka: KafkaServer, mode: DeliveryMode, keyless: set[int]
    ) -> None:
        values: list[Text] = [b"%d" % number for number in range(60)]
        with copying(kafka, mode, {"cleanup.policy": "compact", "min.compaction.lag.ms": "600000"}) as copier:
            keys: list[Text] = [None if number in keyless else b"k%d" % number for number in range(60)]
            kafka.produce(copier.stream, values, keys=keys)
            copier.run_to(60)
            innocent = [value for number, value in enumerate(values) if number not in keyless]
            letters = copier.check(innocent, [values[n] for n in sorted(keyless)], repeats=mode == "at_least_once")
            assert {letter["headwater-error"] for letter in letters} == {"RefusedByKafka"}
            assert all(copier.sink in letter["headwater-message"] for letter in letters)
            copier.run_to_an_ordinary_producer()

    def test_a_too_large_record_among_others(self, kafka: KafkaServer, mode: DeliveryMode) -> None:
        values: list[Text] = [b"%d" % number for number in range(60)]
        values[20] = random.randbytes(9_000)
        with copying(kafka, mode, {"max.message.bytes": "6000"}) as copier:
            kafka.produce(copier.stream, values)
            copier.run_to(60)
            letters = copier.check([*values[:20], *values[21:]], values[20:21], repeats=mode == "at_least_once")
            assert [letter["headwater-error"] for letter in letters] == ["RefusedByKafka"]
            assert copier.sink in letters[0]["headwater-message"]
            assert True in copier.made
            copier.run_to_an_ordinary_producer()
            kafka.produce(copier.stream, [b"later"])
            copier.run_to(61)
            assert kafka.read_all(copier.sink)[-1].value() == b"later"


@pytest.mark.parametrize("mode", MODES)
def test_committed_offsets_include_trailing_control_records(kafka: KafkaServer, mode: DeliveryMode) -> None:
    """The offsets after control records are committed, so that the lag becomes 0.

    No gap is reported.
    """
    with copying(kafka, mode) as copier:
        with transactions(kafka, copier.stream) as write:
            write(b"first", LibrdkafkaProducer.commit_transaction)
            write(b"never seen", LibrdkafkaProducer.abort_transaction)
            copier.run_to(4)
            write(b"nor this", LibrdkafkaProducer.abort_transaction)
            copier.run_to(6)
            write(b"second", LibrdkafkaProducer.commit_transaction)
            copier.run_to(8)
        assert kafka.end_offsets(copier.stream) == {0: 8}
        assert copier.source.take_gaps() == []
        assert copier.source.unreadable() == {}
        copier.check([b"first", b"second"], [], repeats=False)


@contextlib.contextmanager
def transactions(
    kafka: KafkaServer, topic: str
) -> Iterator[Callable[[bytes, Callable[[LibrdkafkaProducer, float], None]], None]]:
    """Return a function that writes a record in a transaction, and commits or aborts it."""
    settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0)
    more = {"transactional.id": kafka.unique("tx"), "delivery.timeout.ms": 10_000}
    with contextlib.closing(LibrdkafkaProducer(settings | more)) as producer:
        producer.init_transactions(WAIT_S)

        def write(value: bytes, end: Callable[[LibrdkafkaProducer, float], None]) -> None:
            producer.begin_transaction()
            columns = BytesColumn.of([value]), BytesColumn.of([None]), numbers([0]), numbers([0])
            assert producer.new_batch(topic, *columns)[1].enqueue()
            assert producer.flush(WAIT_S) == 0
            end(producer, WAIT_S)

        yield write
