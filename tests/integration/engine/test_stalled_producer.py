"""A producer whose connections lose all data is replaced, and all records arrive.

Kafka answers other clients meanwhile.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from headwater.brokers.embedded import EmbeddedKafka
from headwater.brokers.leader_check import LeaderCheck
from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.model.access import KafkaAccess
from headwater.sinks import stalled_producer
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.kafka import KafkaSink
from headwater.sinks.outputs import OutputBatch
from headwater.sinks.stalled_producer import StalledProducerDetector
from headwater.sources.kafka import KafkaSource
from tests.support.kafka import CACHE_DIR, KafkaServer, server
from tests.support.memory.metrics import MemoryMetrics
from tests.support.proxy import CLEAR, Conditions, Proxy
from tests.support.waiting import until

PROXY_HOST = "127.0.0.2"
PATIENCE_S = 1.5
RECORDS = 200


class Link:
    """A broker and its proxy. `access` uses the proxy, and `kafka` bypasses it."""

    def __init__(self, kafka: KafkaServer, proxy: Proxy) -> None:
        self.kafka = kafka
        self.proxy = proxy
        self.access = kafka.access.model_copy(update={"bootstrap_servers": kafka.bootstrap_servers})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Link]:
    embedded = EmbeddedKafka(tmp_path_factory.mktemp("kafka"), CACHE_DIR, advertised_host=PROXY_HOST)
    embedded.prepare()
    child = embedded.start()
    try:
        embedded.wait_ready(child)
        port = int(embedded.bootstrap_servers.rpartition(":")[2])
        proxy = Proxy((PROXY_HOST, port), ("127.0.0.1", port), 1)
        proxy.start()
        yield Link(server(embedded), proxy)
        proxy.stop()
    finally:
        child.stop(15)


@pytest.fixture
def link(broker: Link, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    monkeypatch.setattr(stalled_producer, "MIN_TIMEOUT_S", PATIENCE_S)
    yield broker
    broker.proxy.set(CLEAR)


def worker(kafka: KafkaServer, access: KafkaAccess, source: str, sink: str) -> Worker:
    """Run a worker that copies a topic to another one, which it reaches by a separate address."""
    stall_detector = StalledProducerDetector(LeaderCheck(access, [sink]))
    make = partial(IdempotentKafkaProducer, access, [sink], stall_detector=stall_detector)
    delivery = AtLeastOnce(
        [KafkaSink("out", sink)],
        DeadLetterWriter(sink, 1),
        lambda alone: make(one_record_per_batch=alone),
    )
    group = kafka.unique("group")
    kafka.commit(group, source, {0: 0})
    metrics = PipelineMetrics(MetricsWriter(MemoryMetrics(), deployment_id="d", group=group, writer_id="w"))
    return Worker(KafkaSource(kafka.access, source, group, instance_id="slot-0"), [], delivery, metrics)


def outputs(kafka: KafkaServer, topic: str) -> list[int]:
    """Return the numbers on a topic in order, without repeats."""
    return [*dict.fromkeys(int(message.value() or b"") for message in kafka.read_all(topic))]


@pytest.mark.long
def test_a_worker_reads_again_with_a_new_producer(link: Link) -> None:
    kafka = link.kafka
    source, sink = (kafka.create_topic(kafka.unique(name)) for name in ("in", "out"))
    copies = worker(kafka, link.access, source, sink)

    def copied(count: int) -> bool:
        copies.run_once()
        return kafka.end_offsets(sink)[0] >= count and len(outputs(kafka, sink)) == count

    with closing(copies):
        copies.start()
        kafka.produce(source, [b"%d" % n for n in range(RECORDS)])
        until(partial(copied, RECORDS), what="the first outputs")
        link.proxy.half_open()
        kafka.produce(source, [b"%d" % n for n in range(RECORDS, 2 * RECORDS)])
        until(partial(copied, 2 * RECORDS), what="outputs by a new producer")
    assert outputs(kafka, sink) == [*range(2 * RECORDS)]


def test_a_producer_waits_while_kafka_answers_no_client(link: Link) -> None:
    kafka = link.kafka
    topic = kafka.create_topic(kafka.unique("out"))
    stall_detector = StalledProducerDetector(LeaderCheck(link.access, [topic]))
    outputs = OutputBatch.of(topic, [b"x"] * RECORDS, [None] * RECORDS, [0] * RECORDS, [0] * RECORDS)
    with closing(IdempotentKafkaProducer(link.access, [topic], stall_detector=stall_detector)) as producer:
        producer.connect(30)
        producer.produce(outputs)
        assert producer.flush(30) == 0
        link.proxy.set(Conditions(held=frozenset(["to_server", "to_client"])))
        producer.produce(outputs)
        for _ in range(60):
            assert producer.flush(0.1) > 0
            assert producer.take_failures() == []
        link.proxy.set(CLEAR)
        assert producer.flush(60) == 0
        assert producer.take_failures() == []
    assert kafka.end_offsets(topic) == {0: 2 * RECORDS}
