"""Composition of an ingest: its feed, the streams that it writes to, and its metrics."""

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

from headwater.app.addresses import Addresses
from headwater.app.controller import create_topics
from headwater.app.home import Home, require_platform
from headwater.app.metrics_port import serving
from headwater.app.streams import load_bindings, stream_topic, zerolag_topic
from headwater.brokers.base import INGEST_TOPIC_CONFIG, STREAM_TOPIC_CONFIG, TopicSpec
from headwater.brokers.kafka import KafkaBroker
from headwater.errors import BrokerUnavailable
from headwater.ingest.base import Feed
from headwater.ingest.closing import Closing
from headwater.ingest.options import IngestOptions
from headwater.ingest.runner import COUNTS, Meters, run
from headwater.ingest.writer import POSITIONS_TOPIC, StreamWriter, Target, transactional_id
from headwater.model.binding import Bindings
from headwater.model.stream import STREAM_PARTITIONS
from headwater.model.worker import KafkaAccess
from headwater.settings import Settings
from headwater.sinks.transactional import TransactionalKafkaProducer
from headwater.sources.read_back import read_table

log = structlog.get_logger(__name__)

CONNECT_WITHIN_S: Final = 10.0
BEGIN_WITHIN_S: Final = 30.0

OpenFeed = Callable[[IngestOptions, Settings, threading.Event], Feed]
"""The event ends the waits of the feed."""


class IngestCollector(Collector):
    """Prometheus series of one ingest. They begin at 0 with the process."""

    def __init__(self, options: IngestOptions, meters: Meters) -> None:
        self._labels = (options.name, options.chain)
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        names = ("ingest", "chain")
        records = CounterMetricFamily(
            "headwater_ingest_records", "Records stored, by stream.", labels=(*names, "stream")
        )
        for stream, count in self._meters.records.items():
            records.add_metric((*self._labels, stream), count)
        yield records
        errors = CounterMetricFamily("headwater_ingest_errors", "Failures of the node or of Kafka.", labels=names)
        errors.add_metric(self._labels, self._meters.errors)
        yield errors
        left_out = CounterMetricFamily("headwater_ingest_left_out", "Records too large for a topic.", labels=names)
        left_out.add_metric(self._labels, self._meters.left_out)
        yield left_out
        skipped = CounterMetricFamily(
            "headwater_ingest_skipped", "What of the source became no record, by reason.", labels=(*names, "reason")
        )
        for reason, count in self._meters.skipped.items():
            skipped.add_metric((*self._labels, reason), count)
        yield skipped
        gaps = CounterMetricFamily("headwater_ingest_gaps", "Places where something was missed.", labels=names)
        gaps.add_metric(self._labels, self._meters.gaps)
        yield gaps
        for name, count in self._meters.counts.items():
            counted = CounterMetricFamily(f"headwater_ingest_{name}", COUNTS[name], labels=names)
            counted.add_metric(self._labels, count)
            yield counted
        lag = GaugeMetricFamily("headwater_ingest_lag_seconds", "Age of the newest event stored.", labels=names)
        if self._meters.time_ms:
            lag.add_metric(self._labels, time.time() - self._meters.time_ms / 1000)
        yield lag


@dataclass(frozen=True, slots=True)
class Streams:
    """Where an ingest writes to. stop: ends the waits for Kafka."""

    access: KafkaAccess
    targets: dict[str, Target]
    name: str
    stop: threading.Event

    @contextmanager
    def open(self) -> Iterator[tuple[StreamWriter, bytes | None]]:
        """A writer and the position that was stored last. Raises BrokerUnavailable."""
        topics = sorted({POSITIONS_TOPIC, *(target.topic for target in self.targets.values())})
        producer = TransactionalKafkaProducer(self.access, topics, "", transactional_id(self.name))
        try:
            Closing(self.stop).result(partial(_begin, producer))
            position = read_table(self.access, POSITIONS_TOPIC, self.stop).get(self.name.encode())
            yield StreamWriter(producer, self.targets, self.name), position
        finally:
            producer.close()


def _begin(producer: TransactionalKafkaProducer) -> None:
    producer.connect(CONNECT_WITHIN_S)
    producer.begin(BEGIN_WITHIN_S)  # ends the last transaction of a process before: its position is known then


def find_streams(settings: Settings, options: IngestOptions, feed: Feed, stop: threading.Event) -> Streams:
    """The topics of a feed's streams; made when they are missing. Raises SetupError, BrokerUnavailable."""
    addresses = Addresses(settings, Home(settings.data_dir))
    access = addresses.kafka()
    bindings = load_bindings(settings)
    topics = {stream: _topic(bindings, options.chain, stream) for stream in feed.streams}
    specs = [TopicSpec(topic, STREAM_PARTITIONS, STREAM_TOPIC_CONFIG) for topic in topics.values()]
    broker = KafkaBroker(access, addresses.replication())
    create_topics(broker, (*specs, TopicSpec(POSITIONS_TOPIC, 1, INGEST_TOPIC_CONFIG)), stop)
    targets: dict[str, Target] = {}
    for stream, topic in topics.items():
        partitions = broker.partitions(topic)
        if partitions is None:
            raise BrokerUnavailable(f"The topic {topic} is not on the broker.")
        targets[stream] = Target(topic, partitions)
    return Streams(access, targets, options.name, stop)


def _topic(bindings: Bindings, chain: str, stream: str) -> str:
    """A zerolag stream has a topic even when it is not bound: the feed decides whether to write it."""
    entity, _, zerolag = stream.partition(".")
    if zerolag and bindings.topic(chain, entity):
        return zerolag_topic(bindings, chain, stream)
    return stream_topic(bindings, chain, stream)


def stop_by_signal() -> threading.Event:
    """Is set by SIGTERM and SIGINT, which then no longer end the process."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def run_ingest(settings: Settings, options: IngestOptions, feed: Feed, stop: threading.Event) -> Meters:
    """Run until `stop` is set, or until the feed ends; what was stored.

    Raises SetupError, BrokerUnavailable, IngestStopped.
    """
    require_platform()
    streams = find_streams(settings, options, feed, stop)
    meters = Meters()
    log.info("the ingest starts: it reads its position from Kafka, then asks its node", ingest=options.name)
    with serving(options.metrics_port, IngestCollector(options, meters)):
        run(feed, streams.open, stop, meters)
    return meters
