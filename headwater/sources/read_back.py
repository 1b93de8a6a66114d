"""What stands on topics already: read to their present ends, and no further.

The end is what a reader of uncommitted records sees. One of committed records is held up before the first open
transaction, whoever's it is, and what was committed behind that must be waited for. So must the end of one's own
transaction: Kafka acknowledges a commit before the partitions know of it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Final, NamedTuple, cast

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headwater.brokers.client import ClientErrors, admin_settings, consumer_settings, unavailable
from headwater.brokers.offsets import EARLIEST, LATEST, Place, list_offsets
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess

STALL_S: Final = 30.0
"""How long to wait for more. A killed process's transaction lasts 15 s, and up to 10 s more until Kafka looks."""
REQUEST_S: Final = 30.0
POLL_S: Final = 0.1
"""A batch that is not full waits this long."""
BATCH: Final = 1000


class Kept(NamedTuple):
    """A record that is in a topic."""

    topic: str
    key: bytes | None
    value: bytes | None


def read_table(access: KafkaAccess, topic: str, stop: Event | None = None) -> dict[bytes, bytes]:
    """The last committed value of each key of a compacted topic.

    Raises BrokerUnavailable, also without the topic, and when `stop` is set.
    """
    table = {record.key: record.value for record in _read(access, [topic], EARLIEST, stop)}
    return {key: value for key, value in table.items() if key is not None and value is not None}


def read_since(access: KafkaAccess, topics: Sequence[str], since_ms: int, stop: Event | None = None) -> Iterator[Kept]:
    """The committed records stamped at or after a time, in order within each partition.

    Raises BrokerUnavailable, also when one of the topics is not there, and when `stop` is set.
    """
    return _read(access, topics, OffsetSpec.for_timestamp(max(0, since_ms)), stop)


def _read(access: KafkaAccess, topics: Sequence[str], begin: OffsetSpec, stop: Event | None) -> Iterator[Kept]:
    """begin: where, in each partition."""
    errors = ClientErrors(access)
    with _consumer(access, errors) as consumer:
        admin = AdminClient(admin_settings(access, errors))
        partitions = [partition for topic in topics for partition in _partitions(consumer, topic)]
        ends = _offsets(admin, partitions, LATEST)  # the first request: what comes after it need not be read
        starts = _offsets(admin, partitions, begin)
        unread = {place: ends[place] for place, start in starts.items() if 0 <= start < ends[place]}
        consumer.assign([TopicPartition(*place, starts[place]) for place in unread])
        while unread:
            for message in _batch(consumer, access, errors, unread, stop):
                place, reached = _place(message), _reached(message)
                if place not in unread:
                    continue
                if message.error() is None:
                    yield _kept(message)
                if reached >= unread[place]:
                    del unread[place]
                    consumer.pause([TopicPartition(*place)])  # what comes there now is no news of the others


def _offsets(admin: AdminClient, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[Place, int]:
    """As readers of uncommitted records see them; below 0 where there is none."""
    return list_offsets(admin, dict.fromkeys(partitions, spec), IsolationLevel.READ_UNCOMMITTED, REQUEST_S)


@contextmanager
def _consumer(access: KafkaAccess, errors: ClientErrors) -> Iterator[Consumer]:
    """One that joins no group, and is told where partitions end."""
    settings = consumer_settings(access, errors, "headwater.read-back") | {"enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(settings)
    try:
        yield consumer
    except KafkaException as error:
        raise unavailable(error, access) from error
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    found = consumer.list_topics(topic, REQUEST_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return [TopicPartition(topic, number) for number in found.partitions]


def _batch(
    consumer: Consumer, access: KafkaAccess, errors: ClientErrors, unread: Iterable[Place], stop: Event | None
) -> list[Message]:
    """What comes next: one message at least."""
    deadline = time.monotonic() + STALL_S
    while time.monotonic() < deadline:
        errors.check()
        if stop is not None and stop.is_set():
            raise BrokerUnavailable("The reading ends before all was read: it was told to.")
        if messages := consumer.consume(BATCH, POLL_S):
            return messages
    topics = ", ".join(sorted({topic for topic, _ in unread}))
    raise BrokerUnavailable(
        f"Kafka at {access.bootstrap_servers} gave nothing more of {topics} for {STALL_S:g} s: it does not answer, or "
        "a transaction is open there."
    )


def _reached(message: Message) -> int:
    """The offset that reading has come to: told by a record, or at an end. Raises KafkaException for a failure."""
    error, offset = message.error(), cast("int", message.offset())
    if error is None:
        return offset + 1
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return offset


def _place(message: Message) -> Place:
    return cast("str", message.topic()), cast("int", message.partition())


def _kept(message: Message) -> Kept:
    return Kept(cast("str", message.topic()), message.key(), message.value())
