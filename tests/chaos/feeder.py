"""Writes numbered records to a stream at a steady rate; none is lost on the way, whatever is done to the broker."""

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.load import ORDERING_KEYS, PARTITIONS, Load, ordering_key
from tests.chaos.witness import Settings

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer

TURN_S = 0.02
PUBSUB_TURN_S = 0.1
FLUSH_WITHIN_S = 180.0


class Feeder:
    """count: the records written so far."""

    def __init__(self, settings: Settings, topic: str, load: Load, rate: int) -> None:
        own: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 1,
            "delivery.timeout.ms": 600_000,
            "reconnect.backoff.max.ms": 500,
            "on_delivery": self._delivered,
            "log_level": 0,
        }
        self._producer = Producer({**settings, **own})
        self._topic = topic
        self._load = load
        self._rate = rate
        self.count = 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"the stream refused a record of the feeder: {error}"
        n = int(message.key() or b"")
        assert (message.partition(), message.offset()) == (n % PARTITIONS, n // PARTITIONS), "the stream was not empty"

    def __call__(self, stop: threading.Event) -> None:
        """Feed until told to stop, and see that the broker has everything."""
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + TURN_S, time.monotonic() - 1.0)  # what an outage held up is not made up for
            self._turn(max(1, int(self._rate * TURN_S)))
        assert self._producer.flush(FLUSH_WITHIN_S) == 0, "the stream lost records that the feeder wrote"

    def _turn(self, count: int) -> None:
        for n in range(self.count, self.count + count):
            try:
                self._producer.produce(self._topic, self._load.value(n), b"%d" % n, n % PARTITIONS)
            except BufferError:
                break
            self.count += 1
        self._producer.poll(0)


class PubSubFeeder:
    """The same into a topic of Pub/Sub, whose fake server is no victim. count: the records written so far."""

    def __init__(self, server: "PubSubServer", topic: str, load: Load, rate: int) -> None:
        self._server = server
        self._topic = topic
        self._load = load
        self._rate = rate
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        """Feed until told to stop."""
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + PUBSUB_TURN_S, time.monotonic() - 1.0)
            self._turn(range(self.count, self.count + max(1, int(self._rate * PUBSUB_TURN_S))))

    def _turn(self, numbers: range) -> None:
        messages: Any = [
            {
                "data": self._load.value(n),
                "ordering_key": ordering_key(n % ORDERING_KEYS),
                "attributes": {"key": f"record-{n}"},
            }
            for n in numbers
        ]
        ids = self._server.publisher.publish(topic=self._topic, messages=messages).message_ids
        assert list(ids) == [f"m{n}" for n in numbers], "the server was not empty"
        self.count = numbers.stop
