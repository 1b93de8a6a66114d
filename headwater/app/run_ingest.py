"""Runs an ingest: its chain reader, the topics that it writes to, and its metrics."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.app.data_directory import DataDirectory, require_platform
from headwater.app.endpoints import Endpoints
from headwater.app.metrics_server import serve_metrics
from headwater.app.stream_bindings import load_bindings, stream_topic, zerolag_topic
from headwater.app.topics import create_topics
from headwater.brokers.base import INGEST_TOPIC_CONFIG, STREAM_TOPIC_CONFIG, TopicSpec
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.topic_reader import read_table
from headwater.errors import BrokerUnavailable
from headwater.ingest.base import ChainReader
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.options import IngestOptions
from headwater.ingest.runner import COUNTS, IngestMetrics, run
from headwater.ingest.writer import POSITIONS_TOPIC, StreamTopic, StreamWriter, transactional_id
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings
from headwater.model.stream import STREAM_PARTITIONS
from headwater.settings import Settings
from headwater.sinks.transactional_producer import TransactionalKafkaProducer

log = structlog.get_logger(__name__)

CONNECT_WITHIN_S: Final = 10.0
BEGIN_WITHIN_S: Final = 30.0

OpenChainReader = Callable[[IngestOptions, Settings, threading.Event], ChainReader]
"""Opens a chain reader. The event is set to stop the reader, which then ends its waits."""


class IngestCollector(Collector):
    """The Prometheus metrics of one ingest. The counters start at 0 with the process."""

    def __init__(self, options: IngestOptions, metrics: IngestMetrics) -> None:
        self._labels = (options.name, options.chain)
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        names = ("ingest", "chain")
        records = CounterMetricFamily(
            "headwater_ingest_records", "Records stored, by stream.", labels=(*names, "stream")
        )
        for stream, count in self._metrics.records.items():
            records.add_metric((*self._labels, stream), count)
        yield records
        errors = CounterMetricFamily("headwater_ingest_errors", "Failures of the node or of Kafka.", labels=names)
        errors.add_metric(self._labels, self._metrics.errors)
        yield errors
        left_out = CounterMetricFamily("headwater_ingest_left_out", "Records too large for a topic.", labels=names)
        left_out.add_metric(self._labels, self._metrics.left_out)
        yield left_out
        skipped = CounterMetricFamily(
            "headwater_ingest_skipped",
            "Entries of the source that were not converted to records, by reason.",
            labels=(*names, "reason"),
        )
        for reason, count in self._metrics.skipped.items():
            skipped.add_metric((*self._labels, reason), count)
        yield skipped
        gaps = CounterMetricFamily("headwater_ingest_gaps", "Places where something was missed.", labels=names)
        gaps.add_metric(self._labels, self._metrics.gaps)
        yield gaps
        for name, count in self._metrics.counts.items():
            counted = CounterMetricFamily(f"headwater_ingest_{name}", COUNTS[name], labels=names)
            counted.add_metric(self._labels, count)
            yield counted
        lag = GaugeMetricFamily("headwater_ingest_lag_seconds", "Age of the newest event stored.", labels=names)
        if self._metrics.time_ms:
            lag.add_metric(self._labels, time.time() - self._metrics.time_ms / 1000)
        yield lag


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """The Kafka topics that an ingest writes to.

    Attributes:
        access: How to connect to Kafka.
        targets: The topics, by stream.
        name: The name of the ingest.
        stop: Is set to end the waits for Kafka.
    """

    access: KafkaAccess
    targets: dict[str, StreamTopic]
    name: str
    stop: threading.Event

    @contextmanager
    def open(self) -> Iterator[tuple[StreamWriter, bytes | None]]:
        """Open a writer, and read the last stored position of the ingest. Raises BrokerUnavailable."""
        topics = sorted({POSITIONS_TOPIC, *(target.topic for target in self.targets.values())})
        producer = TransactionalKafkaProducer(
            self.access, topics, source_topic="", transactional_id=transactional_id(self.name)
        )
        try:
            CancelToken(self.stop).run_abandonable(partial(_begin, producer))
            position = read_table(self.access, POSITIONS_TOPIC, self.stop).get(self.name.encode())
            yield StreamWriter(producer, self.targets, self.name), position
        finally:
            producer.close()


def _begin(producer: TransactionalKafkaProducer) -> None:
    producer.connect(CONNECT_WITHIN_S)
    producer.init_transactions(BEGIN_WITHIN_S)  # ends a transaction of a previous process, so the position is final


def prepare_target(
    settings: Settings, options: IngestOptions, reader: ChainReader, stop: threading.Event
) -> IngestTarget:
    """Find the topics of a chain reader's streams.

    Missing topics are created. Raises SetupError, BrokerUnavailable.
    """
    endpoints = Endpoints(settings, DataDirectory(settings.data_dir))
    access = endpoints.admin_kafka()
    bindings = load_bindings(settings)
    topics = {stream: _topic(bindings, options.chain, stream) for stream in reader.streams}
    specs = [TopicSpec(topic, STREAM_PARTITIONS, STREAM_TOPIC_CONFIG) for topic in topics.values()]
    broker = KafkaClusterAdmin(access, endpoints.replication())
    create_topics(broker, (*specs, TopicSpec(POSITIONS_TOPIC, 1, INGEST_TOPIC_CONFIG)), stop)
    targets: dict[str, StreamTopic] = {}
    for stream, topic in topics.items():
        partitions = broker.partitions(topic)
        if partitions is None:
            raise BrokerUnavailable(f"The topic {topic} is not on the broker.")
        targets[stream] = StreamTopic(topic, partitions)
    return IngestTarget(access, targets, options.name, stop)


def _topic(bindings: Bindings, chain: str, stream: str) -> str:
    """Return the topic of a stream.

    An unbound zerolag stream gets its default topic, because the chain reader decides whether to write the stream.
    """
    entity, _, zerolag = stream.partition(".")
    if zerolag and bindings.own_topic(chain, entity):
        return zerolag_topic(bindings, chain, stream)
    return stream_topic(bindings, chain, stream)


def stop_by_signal() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set.

    The signals then no longer end the process by themselves.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def run_ingest(settings: Settings, options: IngestOptions, reader: ChainReader, stop: threading.Event) -> IngestMetrics:
    """Run until `stop` is set or the chain reader ends. Returns the counters of the ingest.

    Raises SetupError, BrokerUnavailable, IngestStopped.
    """
    require_platform()
    target = prepare_target(settings, options, reader, stop)
    metrics = IngestMetrics()
    log.info("the ingest starts: it reads its position from Kafka, then connects to its node", ingest=options.name)
    with serve_metrics(
        options.metrics_port, IngestCollector(options, metrics), "--metrics-port, or the member metrics_port"
    ):
        run(reader, target.open, stop, metrics)
    return metrics
