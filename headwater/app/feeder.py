"""Composition of what feeds a stream: lines into its topic."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.app.addresses import Addresses
from headwater.app.home import Home
from headwater.app.streams import load_bindings, stream_topic
from headwater.brokers.kafka import KafkaBroker
from headwater.errors import SetupError
from headwater.ingest.feed import feed
from headwater.model.natural_key import KeyOf, natural_key
from headwater.settings import Settings
from headwater.sinks.base import Producer
from headwater.sinks.kafka_producer import KafkaProducer

CONNECT_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Feeder:
    """A stream that can be written to."""

    key_of: KeyOf
    topic: str
    partitions: int
    producer: Producer

    def feed(self, lines: Iterable[bytes], rate: float) -> int:
        """Write lines, at most `rate` a second (0: no limit); returns how many. Raises BrokerUnavailable."""
        return feed(lines, self.key_of, self.topic, self.partitions, self.producer, rate=rate)


@contextmanager
def open_feeder(settings: Settings, chain: str, entity: str, *, zerolag: bool = False) -> Iterator[Feeder]:
    """The stream's topic, as the administrator. Raises SetupError when there is no such stream, BrokerUnavailable."""
    topic = stream_topic(load_bindings(settings), chain, f"{entity}.zerolag" if zerolag else entity)
    access = Addresses(settings, Home(settings.data_dir)).kafka()
    partitions = KafkaBroker(access, 1).partitions(topic)
    if partitions is None:
        raise SetupError(f"The topic {topic} is not on the broker. Create it, or bind the stream to another topic.")
    producer = KafkaProducer(access, [topic])
    try:
        producer.connect(CONNECT_WITHIN_S)
        yield Feeder(natural_key(chain, entity), topic, partitions, producer)
    finally:
        producer.close()


def feed_into(data_dir: Path, chain: str, entity: str, lines: Iterator[bytes], rate: float) -> int:
    """Write lines into a stream of the installation in `data_dir`."""
    with open_feeder(Settings(data_dir=data_dir), chain, entity) as feeder:
        return feeder.feed(lines, rate)
