"""Writes numbered records to a stream at a constant rate, without losing any.

The broker may fail meanwhile.
"""

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.load import ORDERING_KEYS, PARTITIONS, Load, ordering_key
from tests.chaos.verifying_consumer import Settings

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer

WRITE_EVERY_S = 0.02
PUBSUB_WRITE_EVERY_S = 0.1
FLUSH_WITHIN_S = 180.0
STALLED_AFTER_S = 100.0
"""Kafka is stopped for 60 s at most, and a killed Kafka is back in 20 s."""
ENDS_WITHIN_S = 90.0
SETTLED_S = 2.0


class Feeder:
    """Feeds a Kafka topic.

    librdkafka can stall forever after a restart of Kafka (librdkafka issue 4976). The feeder then replaces its producer
    and sends the records again that Kafka does not have: the partition and offset of each record are known.

    Attributes:
        rate: Records per second.
        count: The number of records written so far.
        stalls: How many times the producer was replaced.
    """

    def __init__(self, settings: Settings, topic: str, load: Load, rate: int) -> None:
        self._settings = settings
        self._topic = topic
        self._load = load
        self.rate = rate
        self._producer = self._connect()
        self._last_report_at = time.monotonic()
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
        self._last_report_at = time.monotonic()
        n = int(message.key() or b"")
        assert (message.partition(), message.offset()) == (n % PARTITIONS, n // PARTITIONS), "the stream was not empty"

    def __call__(self, stop: threading.Event) -> None:
        """Feed until `stop` is set, then wait until the broker has all records."""
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + WRITE_EVERY_S, time.monotonic() - 1.0)  # the rate does not rise after an outage
            self._write(max(1, int(self.rate * WRITE_EVERY_S)))
        deadline = time.monotonic() + FLUSH_WITHIN_S
        while self._producer.flush(1.0):
            assert time.monotonic() < deadline, "the stream lost records that the feeder wrote"
            self._replace_stalled_producer()

    def _write(self, count: int) -> None:
        for n in range(self.count, self.count + count):
            if not self._produce(n):
                break
            self.count += 1
        self._producer.poll(0)
        self._replace_stalled_producer()

    def _produce(self, n: int) -> bool:
        try:
            self._producer.produce(self._topic, self._load.value(n), b"%d" % n, n % PARTITIONS)
        except BufferError:
            return False
        return True

    def _replace_stalled_producer(self) -> None:
        now = time.monotonic()
        if not len(self._producer):
            self._last_report_at = now
        if now - self._last_report_at > STALLED_AFTER_S:
            self.replace_producer()

    def replace_producer(self) -> None:
        """Replace the producer, and send the records again that Kafka does not have."""
        self.stalls += 1
        self._producer.purge()
        self._producer.flush(FLUSH_WITHIN_S)
        self._producer = self._connect()
        self._last_report_at = time.monotonic()
        for partition, end in enumerate(self._ends()):
            for n in range(end * PARTITIONS + partition, self.count, PARTITIONS):
                while not self._produce(n):
                    self._producer.poll(0.1)

    def _ends(self) -> list[int]:
        """Return the end offsets after the late requests of the replaced producer have ended."""
        partitions = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        consumer = Consumer({**self._settings, "group.id": "feeder", "log_level": 0})
        try:
            before: list[int] = []
            while True:
                marks = [consumer.get_watermark_offsets(partition, timeout=ENDS_WITHIN_S) for partition in partitions]
                ends = [high for _, high in marks]
                if ends == before:
                    return ends
                before = ends
                time.sleep(SETTLED_S)
        finally:
            consumer.close()


class PubSubFeeder:
    """Feeds a topic of the fake Pub/Sub server, to which no action is applied.

    Attributes:
        count: The number of records written so far.
        stalls: Always 0.
    """

    def __init__(self, server: "PubSubServer", topic: str, load: Load, rate: int) -> None:
        self._server = server
        self._topic = topic
        self._load = load
        self._rate = rate
        self.count = 0
        self.stalls = 0

    def __call__(self, stop: threading.Event) -> None:
        """Feed until `stop` is set."""
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + PUBSUB_WRITE_EVERY_S, time.monotonic() - 1.0)
            self._write(range(self.count, self.count + max(1, int(self._rate * PUBSUB_WRITE_EVERY_S))))

    def _write(self, numbers: range) -> None:
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
