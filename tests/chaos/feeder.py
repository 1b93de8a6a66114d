"""Writes numbered records to a stream at a steady rate; none is lost on the way, whatever is done to the broker."""

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.load import ORDERING_KEYS, PARTITIONS, Load, ordering_key
from tests.chaos.witness import Settings

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer

TURN_S = 0.02
PUBSUB_TURN_S = 0.1
FLUSH_WITHIN_S = 180.0
STALLED_AFTER_S = 100.0
"""The longest stop of Kafka is 60 s, and one that was killed is back in 20 s."""
ENDS_WITHIN_S = 90.0
SETTLED_S = 2.0


class Feeder:
    """count: the records written so far; stalls: how often librdkafka had to be given up.

    librdkafka can stand still for good after a restart of Kafka (librdkafka issue 4976). What Kafka lacks is then sent
    anew by another producer: where each record belongs is known.
    """

    def __init__(self, settings: Settings, topic: str, load: Load, rate: int) -> None:
        self._settings = settings
        self._topic = topic
        self._load = load
        self._rate = rate
        self._producer = self._connect()
        self._heard = time.monotonic()
        self.count = 0
        self.stalls = 0

    def _connect(self) -> Producer:
        own: dict[str, Any] = {
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 1,  # as in brokers.client.producer_settings
            "linger.ms": 1,
            "delivery.timeout.ms": 600_000,
            "reconnect.backoff.max.ms": 500,
            "on_delivery": self._delivered,
            "log_level": 0,
        }
        return Producer({**self._settings, **own})

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in (KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE):
            return
        assert error is None, f"the stream refused a record of the feeder: {error}"
        self._heard = time.monotonic()
        n = int(message.key() or b"")
        assert (message.partition(), message.offset()) == (n % PARTITIONS, n // PARTITIONS), "the stream was not empty"

    def __call__(self, stop: threading.Event) -> None:
        """Feed until told to stop, and see that the broker has everything."""
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + TURN_S, time.monotonic() - 1.0)  # what an outage held up is not made up for
            self._turn(max(1, int(self._rate * TURN_S)))
        deadline = time.monotonic() + FLUSH_WITHIN_S
        while self._producer.flush(1.0):
            assert time.monotonic() < deadline, "the stream lost records that the feeder wrote"
            self._mend()

    def _turn(self, count: int) -> None:
        for n in range(self.count, self.count + count):
            if not self._put(n):
                break
            self.count += 1
        self._producer.poll(0)
        self._mend()

    def _put(self, n: int) -> bool:
        try:
            self._producer.produce(self._topic, self._load.value(n), b"%d" % n, n % PARTITIONS)
        except BufferError:
            return False
        return True

    def _mend(self) -> None:
        now = time.monotonic()
        if not len(self._producer):
            self._heard = now
        if now - self._heard > STALLED_AFTER_S:
            self.begin_anew()

    def begin_anew(self) -> None:
        """Go on with another producer, from what Kafka has."""
        self.stalls += 1
        self._producer.purge()
        self._producer.flush(FLUSH_WITHIN_S)
        self._producer = self._connect()
        self._heard = time.monotonic()
        for lane, end in enumerate(self._ends()):
            for n in range(end * PARTITIONS + lane, self.count, PARTITIONS):
                while not self._put(n):
                    self._producer.poll(0.1)

    def _ends(self) -> list[int]:
        """The end of each partition, when no request of the producer that was given up can come any more."""
        places = [TopicPartition(self._topic, lane) for lane in range(PARTITIONS)]
        consumer = Consumer({**self._settings, "group.id": "feeder", "log_level": 0})
        try:
            before: list[int] = []
            while True:
                marks = [consumer.get_watermark_offsets(place, timeout=ENDS_WITHIN_S) for place in places]
                ends = [high for _, high in marks]
                if ends == before:
                    return ends
                before = ends
                time.sleep(SETTLED_S)
        finally:
            consumer.close()


class PubSubFeeder:
    """The same into a topic of Pub/Sub, whose fake server is no victim: it never stalls. count: the records so far."""

    def __init__(self, server: "PubSubServer", topic: str, load: Load, rate: int) -> None:
        self._server = server
        self._topic = topic
        self._load = load
        self._rate = rate
        self.count = 0
        self.stalls = 0

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
