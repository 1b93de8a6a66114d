"""Delivers the new records of topics of one Kafka cluster, for live tails."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, cast

import confluent_kafka
import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import TopicDescription

from headwater.brokers.admin_connection import AdminConnection
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.kafka_topic_history import UNUSED_GROUP_ID
from headwater.brokers.known_brokers import KnownBrokers
from headwater.brokers.offsets import LATEST, list_offsets
from headwater.brokers.tail_reader import EndReason, TailListener
from headwater.brokers.topic_id import described_topic_id
from headwater.brokers.topic_partitions import is_missing, partition_numbers, request_descriptions
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.topic_record import Header, TopicRecord

log = structlog.get_logger(__name__)

REQUEST_TIMEOUT_S: Final = 5.0
DESCRIBE_EVERY_S: Final = 5.0
"""How often the topics are described, to find new partitions, and topics that were removed or created again."""
MAX_MISSING: Final = 2
"""After this many descriptions in a row in which a topic is missing, its subscriptions end."""
LINGER_S: Final = 30.0
"""How long the consumer stays connected after the last subscription has ended."""
MAX_DELIVERED: Final = 200
"""How many records of a topic one poll delivers; further ones are only counted. A tail shows at most 200 a second."""
POLL_S: Final = 0.05
_MAX_RECORDS_PER_POLL: Final = 1_000
_QUEUE_KB: Final = 1_024
_FETCH_BYTES: Final = 512 << 10
"""A broker waits for records of this size, or for `fetch.wait.max.ms`, before it answers a fetch request."""


@dataclass(slots=True)
class _Subscription:
    """A listener of a topic.

    Attributes:
        starts: The offset of each partition before which records are not delivered. An entry is removed when a record
            at or after it has arrived.
    """

    topic: str
    listener: TailListener
    starts: dict[int, int]


@dataclass(slots=True)
class _TailedTopic:
    """A topic that the consumer reads.

    Attributes:
        starts: By partition that is assigned to the consumer, the offset at which its reading began.
        topic_id: The id of the topic; empty when it is not known.
        missing_count: How many descriptions in a row said that the topic does not exist.
    """

    subscriptions: list[_Subscription] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    topic_id: str = ""
    missing_count: int = 0


class KafkaTailReader:
    """Implements tail_reader.TailReader for a Kafka cluster.

    One thread reads all topics with one consumer. The thread runs while there are subscriptions.

    Args:
        access: How the API logs in to the cluster.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._connection = AdminConnection(access)
        self._lock = threading.Lock()
        self._new: list[_Subscription] = []
        self._ended: list[TailListener] = []
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def subscribe(self, topic: str, listener: TailListener) -> None:
        """See tail_reader.TailReader.

        The subscription starts at the high watermarks. Records that were appended earlier by a transaction that is
        still open are not delivered when the transaction ends.
        """
        subscription = _Subscription(topic, listener, self._high_watermarks(topic))
        with self._lock:
            if self._is_closed:
                raise BrokerUnavailable("This process is stopping. Send the same request again.")
            self._new.append(subscription)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tails", daemon=True)
                self._thread.start()

    def _high_watermarks(self, topic: str) -> dict[int, int]:
        with self._connection.translated_errors():
            numbers = partition_numbers(self._connection.client, topic, REQUEST_TIMEOUT_S)
            specs = {TopicPartition(topic, number): LATEST for number in numbers}
            offsets = list_offsets(self._connection.client, specs, IsolationLevel.READ_UNCOMMITTED, REQUEST_TIMEOUT_S)
        return {number: offset for (_, number), offset in offsets.items()}

    def unsubscribe(self, listener: TailListener) -> None:
        """See tail_reader.TailReader."""
        with self._lock:
            if any(each.listener is listener for each in self._new):
                self._new = [each for each in self._new if each.listener is not listener]
            elif self._thread is not None:
                self._ended.append(listener)

    def close(self) -> None:
        """See tail_reader.TailReader."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.join(REQUEST_TIMEOUT_S)

    # The thread.

    def _run(self) -> None:
        consumer = _TailConsumer(self._access, self._connection)
        try:
            self._read_while_subscribed(consumer)
        except (BrokerUnavailable, KafkaException) as error:
            log.warning("live tails end because Kafka can't be read", reason=str(error))
            self._abandon(consumer)
        except Exception:
            log.exception("live tails end because of an unexpected error")
            self._abandon(consumer)
        finally:
            consumer.close()

    def _read_while_subscribed(self, consumer: "_TailConsumer") -> None:
        used_at = time.monotonic()
        while True:
            self._update(consumer)
            if consumer.has_topics:
                used_at = time.monotonic()
            if self._stop_if_unused(consumer, used_at):
                return
            batch = consumer.poll()
            self._update(consumer)  # the records of this batch may have been appended after a new subscription
            consumer.deliver(batch)
            consumer.check_topics()

    def _update(self, consumer: "_TailConsumer") -> None:
        """Apply the subscriptions that were added and ended by other threads."""
        with self._lock:
            new, self._new, ended, self._ended = self._new, [], self._ended, []
        for listener in ended:  # before the new ones: a listener may subscribe again
            consumer.remove(listener)
        for subscription in new:
            consumer.add(subscription)

    def _stop_if_unused(self, consumer: "_TailConsumer", used_at: float) -> bool:
        """Return whether the thread must end, and if so, clear `_thread`.

        It must end when the reader is closed, and some time after the last subscription has ended. `_thread` is cleared
        under the lock, so that the next `subscribe` starts a new thread.
        """
        with self._lock:
            is_used = consumer.has_topics or self._new or time.monotonic() - used_at < LINGER_S
            if is_used and not self._is_closed:
                return False
            self._thread = None
            return True

    def _abandon(self, consumer: "_TailConsumer") -> None:
        with self._lock:
            self._thread = None
            new, self._new, self._ended = self._new, [], []
        for subscription in new:
            subscription.listener.end("broker_unavailable")
        consumer.end_all("broker_unavailable")


class _TailConsumer:
    """The consumer of a tail reader with its topics. Only one thread uses it."""

    def __init__(self, access: KafkaAccess, connection: AdminConnection) -> None:
        self._access = access
        self._errors = ClientErrors(access)
        self._brokers, self._consumer = self._open()
        self._connection = connection
        self._topics: dict[str, _TailedTopic] = {}
        self._descriptions: Mapping[str, Future[TopicDescription]] = {}
        self._next_description_at = 0.0

    def _open(self) -> tuple[KnownBrokers, Consumer]:
        brokers = KnownBrokers()
        settings = consumer_settings(self._access, self._errors, UNUSED_GROUP_ID) | brokers.settings()
        settings |= {
            # When the next records have been deleted, or the topic was created again, reading continues with the first
            # record that exists.
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": _QUEUE_KB,
            # Without this minimum, a broker answers a fetch request of all topics as soon as one record arrives.
            "fetch.min.bytes": _FETCH_BYTES,
        }
        return brokers, confluent_kafka.Consumer(settings)

    @property
    def has_topics(self) -> bool:
        """Whether there are subscriptions."""
        return bool(self._topics)

    def add(self, subscription: _Subscription) -> None:
        """Add a subscription."""
        topic = self._topics.get(subscription.topic)
        if topic is None:
            topic = self._topics[subscription.topic] = _TailedTopic()
            self._assign(subscription.topic, topic, subscription.starts)
        topic.subscriptions.append(subscription)

    def remove(self, listener: TailListener) -> None:
        """Remove the subscription of a listener.

        A topic without further subscriptions is no longer read.
        """
        for name, topic in list(self._topics.items()):
            topic.subscriptions = [each for each in topic.subscriptions if each.listener is not listener]
            if not topic.subscriptions:
                self._drop(name)

    def _assign(self, name: str, topic: _TailedTopic, starts: Mapping[int, int]) -> None:
        if not starts:
            return
        topic.starts |= starts
        self._consumer.incremental_assign([TopicPartition(name, number, start) for number, start in starts.items()])

    def _unassign(self, name: str, topic: _TailedTopic) -> None:
        self._consumer.incremental_unassign([TopicPartition(name, number) for number in topic.starts])
        topic.starts.clear()

    def _drop(self, name: str) -> None:
        self._unassign(name, self._topics.pop(name))

    def poll(self) -> list[Message]:
        """Return the next messages, after POLL_S at the latest.

        Raises BrokerUnavailable when a login fails.
        """
        messages = self._consumer.consume(_MAX_RECORDS_PER_POLL, POLL_S)
        self._errors.check()
        if self._brokers.are_lost:
            self._replace()
        return messages

    def _replace(self) -> None:
        """Continue with another consumer, at the same positions.

        librdkafka has lost all brokers of this one (see known_brokers.py).
        """
        log.warning("the consumer of live tails is replaced, since librdkafka has lost all of its brokers")
        positions = {
            (each.topic, each.partition): each.offset
            for each in self._consumer.position(self._consumer.assignment())
            if each.offset >= 0
        }
        self._consumer.close()
        self._brokers, self._consumer = self._open()
        for name, topic in self._topics.items():
            starts = {number: positions.get((name, number), start) for number, start in topic.starts.items()}
            self._assign(name, topic, starts)

    def deliver(self, messages: Sequence[Message]) -> None:
        """Deliver messages to the listeners of their topics."""
        by_topic: defaultdict[str, list[Message]] = defaultdict(list)
        for message in messages:
            error = message.error()
            if error is None:
                by_topic[cast("str", message.topic())].append(message)
            else:
                # librdkafka retries. `check_topics` finds topics that were removed.
                log.debug("a partition can't be read now", topic=message.topic(), reason=error.str())
        for name, found in by_topic.items():
            if topic := self._topics.get(name):
                _deliver(topic.subscriptions, found)

    def check_topics(self) -> None:
        """Describe the topics now and then, and adapt to their changes. Never waits."""
        if not all(future.done() for future in self._descriptions.values()):
            return
        for name, future in self._descriptions.items():
            if topic := self._topics.get(name):
                self._adapt(name, topic, future)
        self._descriptions = {}
        if self._topics and time.monotonic() >= self._next_description_at:
            self._next_description_at = time.monotonic() + DESCRIBE_EVERY_S
            self._descriptions = request_descriptions(self._connection.client, self._topics, REQUEST_TIMEOUT_S)

    def _adapt(self, name: str, topic: _TailedTopic, future: Future[TopicDescription]) -> None:
        error = future.exception()
        if error is not None:
            topic.missing_count = topic.missing_count + 1 if is_missing(error) else 0
            if topic.missing_count >= MAX_MISSING:
                self._end(name, "topic_removed")
            return
        topic.missing_count = 0
        described = future.result()
        topic_id = described_topic_id(described)
        if topic.topic_id and topic_id != topic.topic_id:
            self._unassign(name, topic)
            for subscription in topic.subscriptions:
                subscription.starts.clear()
        topic.topic_id = topic_id
        new = {partition.id for partition in described.partitions} - topic.starts.keys()
        self._assign(name, topic, dict.fromkeys(new, OFFSET_BEGINNING))

    def _end(self, name: str, reason: EndReason) -> None:
        subscriptions = self._topics[name].subscriptions
        self._drop(name)
        for subscription in subscriptions:
            subscription.listener.end(reason)

    def end_all(self, reason: EndReason) -> None:
        """End all subscriptions. The consumer is not used any more."""
        topics, self._topics = self._topics, {}
        for topic in topics.values():
            for subscription in topic.subscriptions:
                subscription.listener.end(reason)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def _deliver(subscriptions: Sequence[_Subscription], messages: Sequence[Message]) -> None:
    """Deliver the messages of a topic, at most MAX_DELIVERED to each listener.

    All listeners share the record objects. A listener whose subscription has just begun gets the first MAX_DELIVERED
    records at or after its start. Some of these may not be among the shared records; they are converted for this
    listener alone.
    """
    records = [_record(message) for message in messages[:MAX_DELIVERED]]
    for subscription in subscriptions:
        if not subscription.starts:
            subscription.listener.deliver(records, len(messages) - len(records))
            continue
        started = [index for index, message in enumerate(messages) if _has_started(subscription.starts, message)]
        if started:
            shown = [
                records[index] if index < len(records) else _record(messages[index])
                for index in started[:MAX_DELIVERED]
            ]
            subscription.listener.deliver(shown, len(started) - len(shown))


def _has_started(starts: dict[int, int], message: Message) -> bool:
    """Return whether a record is at or after the start of a subscription."""
    partition = cast("int", message.partition())
    start = starts.get(partition)
    if start is None:
        return True
    if cast("int", message.offset()) < start:
        return False
    del starts[partition]
    return True


def _record(message: Message) -> TopicRecord:
    timestamp_type, timestamp = message.timestamp()
    return TopicRecord(
        cast("int", message.partition()),
        cast("int", message.offset()),
        None if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp,
        message.key(),
        message.value(),
        tuple(cast("list[Header]", message.headers() or ())),
    )
