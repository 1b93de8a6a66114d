"""The Kafka topics that an ingest writes to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.app.endpoints import Endpoints
from headwater.app.stream_bindings import load_bindings, stream_topic, zerolag_topic
from headwater.app.topics import create_topics
from headwater.brokers.base import INGEST_TOPIC_CONFIG, STREAM_TOPIC_CONFIG, TopicSpec
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.read_to_end import read_table
from headwater.errors import BrokerUnavailable
from headwater.ingest.base import ChainReader
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.options import IngestOptions
from headwater.ingest.writer import POSITIONS_TOPIC, StreamTopic, StreamWriter, transactional_id
from headwater.model.access import KafkaAccess
from headwater.model.binding import Bindings
from headwater.model.stream import STREAM_PARTITIONS
from headwater.settings import Settings
from headwater.sinks.transactional_producer import TransactionalKafkaProducer

CONNECT_WITHIN_S: Final = 10.0
BEGIN_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """The Kafka topics that an ingest writes to.

    Attributes:
        access: How to connect to Kafka.
        topics: The topics, by the name of the stream without its chain.
        name: The name of the ingest.
        stop: Is set to end the waits for Kafka.
    """

    access: KafkaAccess
    topics: dict[str, StreamTopic]
    name: str
    stop: threading.Event

    @contextmanager
    def open(self) -> Iterator[tuple[StreamWriter, bytes | None]]:
        """Open a writer, and read the last stored position of the ingest.

        Raises BrokerUnavailable. When `stop` is set, raises IngestCancelled or, from `read_table`, BrokerUnavailable.
        """
        names = sorted({POSITIONS_TOPIC, *(topic.topic for topic in self.topics.values())})
        producer = TransactionalKafkaProducer(
            self.access, names, source_topic="", transactional_id=transactional_id(self.name)
        )
        try:
            CancelToken(self.stop).run_abandonable(partial(_begin, producer))  # so a stop does not wait for Kafka
            position = read_table(self.access, POSITIONS_TOPIC, self.stop).get(self.name.encode())
            yield StreamWriter(producer, self.topics, self.name), position
        finally:
            producer.close()


def _begin(producer: TransactionalKafkaProducer) -> None:
    producer.connect(CONNECT_WITHIN_S)
    producer.init_transactions(BEGIN_WITHIN_S)  # ends a transaction of a previous process, so the position is final


def prepare_target(
    settings: Settings, options: IngestOptions, reader: ChainReader, stop: threading.Event
) -> IngestTarget | None:
    """Find the topics of a chain reader's streams, and create missing topics.

    Returns None when `stop` is set before Kafka has all topics. Raises SetupError, BrokerUnavailable.
    """
    endpoints = Endpoints.from_settings(settings)
    access = endpoints.admin_kafka_access()
    bindings = load_bindings(settings)
    names = {stream: _topic_name(bindings, options.chain, stream) for stream in reader.streams}
    specs = [TopicSpec(name, STREAM_PARTITIONS, STREAM_TOPIC_CONFIG) for name in names.values()]
    own_cluster = KafkaClusterAdmin(access, replication=endpoints.replication())
    create_topics(own_cluster, (*specs, TopicSpec(POSITIONS_TOPIC, 1, INGEST_TOPIC_CONFIG)), stop)
    if stop.is_set():
        return None
    topics: dict[str, StreamTopic] = {}
    for stream, name in names.items():
        partitions = own_cluster.partition_count(name)
        if partitions is None:
            raise BrokerUnavailable(f"The topic {name} does not exist.")
        topics[stream] = StreamTopic(name, partitions)
    return IngestTarget(access, topics, options.name, stop)


def _topic_name(bindings: Bindings, chain: str, stream: str) -> str:
    """Return the topic of the stream `<entity>` or `<entity>.zerolag`. Raises SetupError."""
    entity, _, zerolag = stream.partition(".")
    return zerolag_topic(bindings, chain, entity) if zerolag else stream_topic(bindings, chain, entity)
