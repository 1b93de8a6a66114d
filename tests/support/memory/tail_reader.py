"""In-memory implementation of TailReader, for tests."""

import threading

from headwater.brokers.tail_reader import EndReason, TailListener
from headwater.errors import BrokerUnavailable, TopicMissing
from headwater.model.topic_record import TopicRecord


class MemoryTailReader:
    """Implements TailReader for topics to which a test appends.

    Attributes:
        away: While this is true, every subscription raises BrokerUnavailable.
        listeners: The topic of each listener.
    """

    def __init__(self) -> None:
        self.away = False
        self.listeners: dict[TailListener, str] = {}
        self._topics: set[str] = set()
        self._lock = threading.Lock()

    def create(self, topic: str) -> None:
        """Create a topic."""
        self._topics.add(topic)

    def append(self, topic: str, *records: TopicRecord, skipped: int = 0) -> None:
        """Deliver records to the listeners of a topic."""
        for listener, each in list(self.listeners.items()):
            if each == topic:
                listener.deliver(records, skipped)

    def remove(self, topic: str, reason: EndReason = "topic_removed") -> None:
        """Remove a topic."""
        self._topics.remove(topic)
        for listener, each in list(self.listeners.items()):
            if each == topic:
                listener.end(reason)

    def subscribe(self, topic: str, listener: TailListener) -> None:
        """See TailReader."""
        if self.away:
            raise BrokerUnavailable("Kafka at kafka.example:9092 does not answer.")
        if topic not in self._topics:
            raise TopicMissing(topic)
        with self._lock:
            self.listeners[listener] = topic

    def unsubscribe(self, listener: TailListener) -> None:
        """See TailReader."""
        with self._lock:
            self.listeners.pop(listener, None)

    def close(self) -> None:
        """See TailReader."""
