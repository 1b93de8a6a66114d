"""Writes records to the topic of a stream on the installation's own Kafka cluster."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.app.endpoints import Endpoints
from headwater.app.stream_bindings import load_bindings, stream_topic
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.errors import SetupError
from headwater.ingest.replay_writer import write_lines
from headwater.model.natural_key import KeyOf, natural_key
from headwater.settings import Settings
from headwater.sinks.base import Producer
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer

CONNECT_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class TopicWriter:
    """Writes records to the topic of one stream.

    Attributes:
        key_of: Returns the key of a record.
        topic: The name of the topic.
        partitions: The number of partitions of the topic.
        producer: The producer of the records.
    """

    key_of: KeyOf
    topic: str
    partitions: int
    producer: Producer

    def write_lines(self, lines: Iterable[bytes], rate: float) -> int:
        """Write lines, at most `rate` a second, and return how many were written.

        A rate of 0 means no limit. Raises BrokerUnavailable.
        """
        return write_lines(lines, self.key_of, self.topic, self.partitions, self.producer, rate=rate)


@contextmanager
def open_topic_writer(settings: Settings, chain: str, entity: str, *, zerolag: bool = False) -> Iterator[TopicWriter]:
    """Open the topic of a stream for writing, logged in as Headwater's own Kafka user.

    Raises SetupError when there is no such stream, and BrokerUnavailable.
    """
    topic = stream_topic(load_bindings(settings), chain, entity, zerolag=zerolag)
    access = Endpoints.from_settings(settings).admin_kafka_access()
    partitions = KafkaClusterAdmin(access).partition_count(topic)
    if partitions is None:
        raise SetupError(f"The topic {topic} does not exist. Create it, or bind the stream to another topic.")
    producer = IdempotentKafkaProducer(access, [topic])
    try:
        producer.connect(CONNECT_WITHIN_S)
        yield TopicWriter(natural_key(chain, entity), topic, partitions, producer)
    finally:
        producer.close()


def write_to_stream(data_dir: Path, chain: str, entity: str, lines: Iterator[bytes], rate: float) -> int:
    """Write lines to a stream of the installation in `data_dir`. Returns how many were written.

    All other settings have their defaults: the variables of this process may name another installation.
    """
    with open_topic_writer(Settings.model_construct(data_dir=data_dir), chain, entity) as writer:
        return writer.write_lines(lines, rate)
