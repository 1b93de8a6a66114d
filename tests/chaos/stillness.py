"""Measures how long a consumer group makes no progress on a partition although Kafka answers and has records."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.offsets import LATEST
from headwater.model.worker_spec import KafkaAccess

log = structlog.get_logger(__name__)

ASK_EVERY_S = 0.25
LOGGED_S = 6.0
ANSWER_WITHIN_S = 2.0
NEW_CLIENT_AFTER_S = 6.0


@dataclass
class _Partition:
    """Progress of one partition; times are monotonic seconds.

    Attributes:
        since: When the partition last moved, had no unread records, or Kafka did not answer.
        moved_at: When the committed offset last moved, or the partition had no unread records.
        committed: The group's committed offset, as it was read last.
    """

    since: float
    moved_at: float
    committed: int = -1


class Stillness:
    """Takes what Kafka answers, and when it does not.

    Attributes:
        longest_s: By partition, the longest time without progress while Kafka answered and had unread records.
        answered: How many questions Kafka answered.
        unanswered: How many questions Kafka did not answer.
    """

    def __init__(self, partitions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._partitions = {partition: _Partition(clock(), 0.0) for partition in range(partitions)}
        self.longest_s = dict.fromkeys(range(partitions), 0.0)
        self.answered = self.unanswered = 0

    def note_silence(self) -> None:
        """Kafka did not answer: what stands still now does so because of that."""
        self.unanswered += 1
        for each in self._partitions.values():
            each.since = self._clock()

    def note_answer(self, ends: Mapping[int, int], committed: Mapping[int, int]) -> None:
        """Kafka told where the partitions end, and the group's committed offsets (none: a negative number)."""
        self.answered += 1
        now = self._clock()
        for partition, each in self._partitions.items():
            at, still_s = committed.get(partition, -1), now - each.since
            self.longest_s[partition] = max(self.longest_s[partition], still_s)
            if at != each.committed or at >= ends[partition]:
                if still_s >= LOGGED_S:
                    log.info("a partition moves again", partition=partition, committed=at, still_s=round(still_s, 1))
                each.committed, each.since, each.moved_at = at, now, now

    def all_moved_since(self, moment: float) -> bool:
        """Whether each partition has made progress, or had no unread records, since a moment."""
        return all(each.moved_at > moment for each in self._partitions.values())

    def still(self) -> dict[int, float]:
        """How long each partition has made no progress now, in seconds."""
        return {partition: round(self._clock() - each.since, 1) for partition, each in self._partitions.items()}


class StillnessObserver:
    """Asks an admin client for end offsets, and a consumer for committed offsets; `__call__` runs in its own thread.

    librdkafka's admin client aborts the process when a group's coordinator answers too late (librdkafka issue 4605).
    """

    def __init__(self, access: KafkaAccess, topic: str, group: str, partitions: int) -> None:
        self._access, self._group = access, group
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._admin, self._consumer = self._new_clients()
        self._silent_since: float | None = None
        self.stillness = Stillness(partitions)

    def _new_clients(self) -> tuple[AdminClient, Consumer]:
        settings = admin_settings(self._access, ClientErrors(self._access)) | {"log_level": 0}
        return AdminClient(settings), Consumer(settings | {"group.id": self._group})

    def __call__(self, stop: threading.Event) -> None:
        """Observe until told to stop."""
        while not stop.wait(ASK_EVERY_S):
            asked_at = time.monotonic()
            try:
                ends, committed = self._ask()
            except KafkaException:
                self.stillness.note_silence()
                self._renew(asked_at)
            else:
                self.stillness.note_answer(ends, committed)
                self._silent_since = None
        self._consumer.close()

    def _ask(self) -> tuple[dict[int, int], dict[int, int]]:
        """The end offsets and the committed offsets by partition. Raises KafkaException when Kafka does not answer."""
        self._admin.poll(0)
        ends = self._admin.list_offsets(dict.fromkeys(self._places, LATEST), request_timeout=ANSWER_WITHIN_S)
        committed = self._consumer.committed(self._places, ANSWER_WITHIN_S)
        return {place.partition: answer.result().offset for place, answer in ends.items()}, {
            place.partition: place.offset for place in committed
        }

    def _renew(self, asked_at: float) -> None:
        """Take new clients when the old ones have had no answer for a while: their connections may hang."""
        self._silent_since = self._silent_since or asked_at
        if time.monotonic() - self._silent_since > NEW_CLIENT_AFTER_S:
            self._consumer.close()
            (self._admin, self._consumer), self._silent_since = self._new_clients(), None
