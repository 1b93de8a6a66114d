"""A Kafka broker and a stream of records for the data-plane benchmarks."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings, consumer_settings, producer_settings
from headwater.brokers.embedded import EmbeddedKafka
from headwater.model.access import KafkaAccess

PARTITIONS = 4
CACHE_DIR = Path("~/.cache/headwater")
WAIT_S = 240.0
POLL_S = 0.2
_NO_LEADER_ERRORS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}


@contextmanager
def broker(folder: Path) -> Iterator[KafkaAccess]:
    """Run an embedded broker for the block. Yield the administrator's access."""
    embedded = EmbeddedKafka(folder, CACHE_DIR)
    embedded.prepare()
    child = embedded.start()
    try:
        embedded.wait_ready(child)
        yield embedded.access()
    finally:
        child.stop(15)


def admin_of(access: KafkaAccess) -> AdminClient:
    """Return an admin client with the administrator's credentials."""
    return AdminClient(admin_settings(access, ClientErrors(access)))


@contextmanager
def topic(access: KafkaAccess, name: str) -> Iterator[str]:
    """Create a topic with log append time; delete the topic after the block."""
    admin = admin_of(access)
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result(WAIT_S)
    while not _has_leaders(admin, name):
        time.sleep(POLL_S)
    yield name
    admin.delete_topics([name])[name].result(WAIT_S)


def _has_leaders(admin: AdminClient, name: str) -> bool:
    """Return whether every partition has a leader.

    A new topic may have no partitions in the metadata yet.
    """
    partitions = admin.list_topics(name, timeout=WAIT_S).topics[name].partitions.values()
    return len(partitions) == PARTITIONS and all(partition.leader >= 0 for partition in partitions)


LARGE_BATCHES: dict[str, Any] = {"queue.buffering.max.messages": 200_000, "batch.num.messages": 10_000}


def fill(
    access: KafkaAccess, name: str, values: Sequence[bytes], count: int, settings: Mapping[str, Any] = LARGE_BATCHES
) -> None:
    """Write `count` records, of which record i goes to partition i % PARTITIONS.

    Record i has the value `values[i % len(values)]`.

    Its offset in that partition is i // PARTITIONS. `settings` are added to the settings of every producer.
    """
    producer = Producer(producer_settings(access, ClientErrors(access), 50) | dict(settings))
    for number in range(count):
        while True:
            try:
                producer.produce(name, values[number % len(values)], b"%d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(WAIT_S) == 0


def start_at_the_beginning(access: KafkaAccess, group: str, source: str) -> None:
    """Commit offset 0 for all partitions: a worker starts only from committed offsets."""
    consumer = Consumer(consumer_settings(access, ClientErrors(access), group))
    consumer.commit(offsets=[TopicPartition(source, p, 0) for p in range(PARTITIONS)], asynchronous=False)
    consumer.close()


def wait_for_records(access: KafkaAccess, name: str, count: int) -> None:
    """Wait until a topic has `count` records. Fail if none arrive for WAIT_S.

    The function polls the end offsets only: reading the records would take CPU from the pipeline.
    """
    consumer = Consumer(consumer_settings(access, ClientErrors(access), "ends"))
    before, deadline = 0, time.monotonic() + WAIT_S
    while (present := records_in(consumer, name)) < count:
        if present > before:
            before, deadline = present, time.monotonic() + WAIT_S
        assert time.monotonic() < deadline, f"{present:,} of {count:,} records arrived"
        time.sleep(POLL_S)
    consumer.close()


def records_in(consumer: Consumer, name: str) -> int:
    """Return how many records a topic has: 0 while a new partition has no leader."""
    try:
        marks = [consumer.get_watermark_offsets(TopicPartition(name, p), WAIT_S) for p in range(PARTITIONS)]
    except KafkaException as error:
        if error.args[0].code() not in _NO_LEADER_ERRORS:
            raise
        return 0
    return sum(high - low for low, high in filter(None, marks))
