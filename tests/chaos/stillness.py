"""Measures how long a consumer group makes no progress on a partition although Kafka answers and has records."""

import threading
import time
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.brokers.client import ClientErrors, admin_settings
from headwater.brokers.offsets import LATEST
from headwater.model.worker import KafkaAccess

log = structlog.get_logger(__name__)

ASK_EVERY_S = 0.25
LOGGED_S = 6.0
ANSWER_WITHIN_S = 2.0
NEW_CLIENT_AFTER_S = 6.0


@dataclass
class _Partition:
    """Progress of one partition.

    Attributes:
        committed: The group's committed offset, as it was read last.
        since: When the partition last moved, had no unread records, or Kafka did not answer (monotonic seconds).
        moved_at: When the committed offset last moved, or the partition had no unread records.
    """

    committed: int = -1
    since: float = field(default_factory=time.monotonic)
    moved_at: float = 0.0


class StillnessObserver:
    """Asks an admin client for end offsets, and a consumer for committed offsets; `__call__` runs in its own thread.

    (librdkafka's admin client aborts the process when a group coordinator answers too late: librdkafka issue 4605.)

    Attributes:
        longest_s: By partition, the longest time without progress while Kafka answered and had unread records.
        answered: How many questions Kafka answered.
        unanswered: How many questions Kafka did not answer.
    """

    def __init__(self, access: KafkaAccess, topic: str, group: str, partitions: int) -> None:
        self._access, self._topic, self._group = access, topic, group
        self._partitions = {partition: _Partition() for partition in range(partitions)}
        self._admin, self._consumer = self._new_clients()
        self._silent_since: float | None = None
        self.longest_s = dict.fromkeys(range(partitions), 0.0)
        self.answered = self.unanswered = 0

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
                self._note_silence(asked_at)
            else:
                self._note_answer(ends, committed)

    def _ask(self) -> tuple[dict[int, int], dict[int, int]]:
        """The end offsets and the committed offsets by partition. Raises KafkaException when Kafka does not answer."""
        self._admin.poll(0)
        wanted = {TopicPartition(self._topic, partition): LATEST for partition in self._partitions}
        ends = self._admin.list_offsets(wanted, request_timeout=ANSWER_WITHIN_S)
        committed = self._consumer.committed([*wanted], ANSWER_WITHIN_S)
        return {place.partition: answer.result().offset for place, answer in ends.items()}, {
            place.partition: place.offset for place in committed
        }

    def _note_silence(self, asked_at: float) -> None:
        self.unanswered += 1
        now = time.monotonic()
        for each in self._partitions.values():
            each.since = now
        self._silent_since = self._silent_since or asked_at
        if now - self._silent_since > NEW_CLIENT_AFTER_S:
            self._consumer.close()
            (self._admin, self._consumer), self._silent_since = self._new_clients(), None

    def _note_answer(self, ends: dict[int, int], committed: dict[int, int]) -> None:
        self.answered += 1
        self._silent_since = None
        now = time.monotonic()
        for partition, each in self._partitions.items():
            at, still_s = committed.get(partition, -1), now - each.since
            self.longest_s[partition] = max(self.longest_s[partition], still_s)
            if at != each.committed or at >= ends[partition]:
                if still_s >= LOGGED_S:
                    log.info("a partition moves again", partition=partition, committed=at, still_s=round(still_s, 1))
                each.committed, each.since, each.moved_at = at, now, now

    def all_moved_since(self, moment: float) -> bool:
        """Whether each partition has made progress, or had no unread records, since a moment (monotonic seconds)."""
        return all(each.moved_at > moment for each in self._partitions.values())

    def still(self) -> dict[int, float]:
        """How long each partition has made no progress, in seconds."""
        now = time.monotonic()
        return {partition: round(now - each.since, 1) for partition, each in self._partitions.items()}
