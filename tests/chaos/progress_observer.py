"""Measures how long a consumer group makes no progress on a partition.

Only the time counts in which Kafka answers and has records.
"""

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
from headwater.model.access import KafkaAccess

log = structlog.get_logger(__name__)

POLL_EVERY_S = 0.25
LOGGED_S = 6.0
ANSWER_WITHIN_S = 2.0
NEW_CLIENT_AFTER_S = 6.0


@dataclass
class _Partition:
    """The progress of one partition; times are monotonic seconds.

    Attributes:
        stalled_since: When the committed offset last moved, all records were read, or Kafka did not answer.
        progressed_at: The last time at which the committed offset moved, or all records were read.
        committed: The last committed offset that was read.
    """

    stalled_since: float
    progressed_at: float
    committed: int = -1


class ProgressMonitor:
    """Computes from observed offsets how long partitions make no progress.

    Attributes:
        longest_s: By partition, the longest time without progress while Kafka answered and had unread records.
        answered: How many requests Kafka answered.
        unanswered: How many requests Kafka did not answer.
    """

    def __init__(self, partitions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._partitions = {partition: _Partition(clock(), 0.0) for partition in range(partitions)}
        self.longest_s = dict.fromkeys(range(partitions), 0.0)
        self.answered = self.unanswered = 0

    def record_timeout(self) -> None:
        """Record that Kafka did not answer. Stalls are counted from now on only."""
        self.unanswered += 1
        for progress in self._partitions.values():
            progress.stalled_since = self._clock()

    def record_offsets(self, ends: Mapping[int, int], committed: Mapping[int, int]) -> None:
        """Record the end offsets and the committed offsets.

        A negative offset means that none is committed.
        """
        self.answered += 1
        now = self._clock()
        for partition, progress in self._partitions.items():
            offset, stalled_s = committed.get(partition, -1), now - progress.stalled_since
            self.longest_s[partition] = max(self.longest_s[partition], stalled_s)
            if offset != progress.committed or offset >= ends[partition]:
                if stalled_s >= LOGGED_S:
                    event = "a partition makes progress again"
                    log.info(event, partition=partition, committed=offset, stalled_s=round(stalled_s, 1))
                progress.committed, progress.stalled_since, progress.progressed_at = offset, now, now

    def all_progressed_since(self, moment: float) -> bool:
        """Return whether each partition has made progress, or had no unread records, since a time."""
        return all(progress.progressed_at > moment for progress in self._partitions.values())

    def stalled_s(self) -> dict[int, float]:
        """Return for how many seconds each partition has made no progress by now."""
        now = self._clock()
        return {partition: round(now - progress.stalled_since, 1) for partition, progress in self._partitions.items()}


class ProgressObserver:
    """Polls end offsets with an admin client, and committed offsets with a consumer.

    `__call__` runs in its own thread. The committed offsets come from a consumer, because librdkafka's admin client
    aborts the process if a group's coordinator answers too late (librdkafka issue 4605).
    """

    def __init__(self, access: KafkaAccess, topic: str, group: str, partitions: int) -> None:
        self._access, self._group = access, group
        self._topic_partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._admin, self._consumer = self._new_clients()
        self._silent_since: float | None = None
        self.monitor = ProgressMonitor(partitions)

    def _new_clients(self) -> tuple[AdminClient, Consumer]:
        settings = admin_settings(self._access, ClientErrors(self._access)) | {"log_level": 0}
        return AdminClient(settings), Consumer(settings | {"group.id": self._group})

    def __call__(self, stop: threading.Event) -> None:
        """Observe until `stop` is set."""
        while not stop.wait(POLL_EVERY_S):
            requested_at = time.monotonic()
            try:
                ends, committed = self._fetch_offsets()
            except KafkaException:
                self.monitor.record_timeout()
                self._renew(requested_at)
            else:
                self.monitor.record_offsets(ends, committed)
                self._silent_since = None
        self._consumer.close()

    def _fetch_offsets(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return end offsets and committed offsets by partition.

        Raise KafkaException if Kafka does not answer.
        """
        self._admin.poll(0)
        ends = self._admin.list_offsets(dict.fromkeys(self._topic_partitions, LATEST), request_timeout=ANSWER_WITHIN_S)
        committed = self._consumer.committed(self._topic_partitions, ANSWER_WITHIN_S)
        return {end.partition: future.result().offset for end, future in ends.items()}, {
            position.partition: position.offset for position in committed
        }

    def _renew(self, requested_at: float) -> None:
        """Replace the clients if they have had no answer for a while: their connections may hang."""
        self._silent_since = self._silent_since or requested_at
        if time.monotonic() - self._silent_since > NEW_CLIENT_AFTER_S:
            self._consumer.close()
            (self._admin, self._consumer), self._silent_since = self._new_clients(), None
