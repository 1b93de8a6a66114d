"""Writes records to the topic of a stream on the installation's own Kafka cluster."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.app.data_directory import DataDirectory
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
class Feeder:
    """Writes to one stream."""

    key_of: KeyOf
    topic: str
    partitions: int
    producer: Producer

    def write_lines(self, lines: Iterable[bytes], rate: float) -> int:
        """Write lines, at most `rate` a second (0: no limit); returns how many.

        Raises BrokerUnavailable.
        """
        return write_lines(lines, self.key_of, self.topic, self.partitions, self.producer, rate=rate)


@contextmanager
def open_feeder(settings: Settings, chain: str, entity: str, *, zerolag: bool = False) -> Iterator[Feeder]:
    """Open the topic of a stream for writing, logged in as Headwater's own Kafka user.

    Raises SetupError when there is no such stream, and BrokerUnavailable.
    """
    topic = stream_topic(load_bindings(settings), chain, f"{entity}.zerolag" if zerolag else entity)
    access = Endpoints(settings, DataDirectory(settings.data_dir)).admin_kafka()
    partitions = KafkaClusterAdmin(access, 1).partitions(topic)
    if partitions is None:
        raise SetupError(f"The topic {topic} is not on the broker. Create it, or bind the stream to another topic.")
    producer = IdempotentKafkaProducer(access, [topic])
    try:
        producer.connect(CONNECT_WITHIN_S)
        yield Feeder(natural_key(chain, entity), topic, partitions, producer)
    finally:
        producer.close()


def feed_into(data_dir: Path, chain: str, entity: str, lines: Iterator[bytes], rate: float) -> int:
    """Write lines to a stream of the installation in `data_dir`. Returns how many were written."""
    with open_feeder(Settings(data_dir=data_dir), chain, entity) as feeder:
        return feeder.write_lines(lines, rate)
