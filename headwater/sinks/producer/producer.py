"""The producer as the engine's thread sees it."""

import time
from collections.abc import Sequence
from threading import Thread
from typing import Final

from confluent_kafka import KafkaError

from headwater.brokers.client import MAX_POLL_INTERVAL_MS, unavailable
from headwater.brokers.wire.cluster import Cluster, Layout
from headwater.brokers.wire.connection import ConnectionLost, LoginRefused, TlsRefused
from headwater.errors import BrokerUnavailable
from headwater.model.worker import KafkaAccess
from headwater.sinks.base import Outputs
from headwater.sinks.producer.finder import Finder
from headwater.sinks.producer.outbox import Outbox
from headwater.sinks.producer.queue import Queue, Waiting

MAX_RECORDS: Final = 20_000
MAX_BYTES: Final = 64 << 20
"""With more than either, `saturated`: what is queued at a checkpoint has to be waited for."""
ACKNOWLEDGED_WITHIN_S: Final = MAX_POLL_INTERVAL_MS / 1000
DRAIN_S: Final = 2.0
"""How long a closing producer waits for requests that are on their way, so that none arrives after its successor's."""
PUSH_EVERY_S: Final = 0.005
ASK_S: Final = 10.0
_AGAIN_S: Final = 0.05


class KafkaProducer:
    """Implements sinks.base.Producer. topics: what `connect` looks for."""

    def __init__(self, access: KafkaAccess, topics: Sequence[str]) -> None:
        self._access = access
        self._topics = topics
        self._outbox = Outbox()
        self._cluster = Cluster(access, ASK_S)
        self._finder = Finder(self._outbox, access, self._cluster, ACKNOWLEDGED_WITHIN_S)
        self._push_at = float("-inf")

    # Before records are sent.

    def connect(self, timeout_s: float) -> None:
        try:
            layout = self._layout(timeout_s)
        finally:
            self._cluster.close()
        for topic in self._topics:
            if topic in layout.faults:
                raise unavailable(KafkaError(layout.faults[topic]), self._access)

    def _layout(self, timeout_s: float) -> Layout:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._cluster.layout(self._topics)
            except LoginRefused as error:
                raise self._away(KafkaError.SASL_AUTHENTICATION_FAILED) from error
            except TlsRefused as error:
                raise self._away(KafkaError._SSL) from error
            except ConnectionLost as error:
                if time.monotonic() > deadline:
                    raise self._away(KafkaError._TRANSPORT) from error
            time.sleep(_AGAIN_S)

    def _away(self, code: int) -> BrokerUnavailable:
        return unavailable(KafkaError(code), self._access)

    # Records.

    def produce(self, outputs: Outputs) -> None:
        for partition, rows in outputs.by_partition():
            waiting = Waiting.of(outputs, rows, time.monotonic())
            with self._outbox.lock:
                self._outbox.records += len(rows)
                self._outbox.size += waiting.size
                queue = self._queue(outputs.topic, partition)
                if not queue.waiting:
                    self._wake()
                queue.add(waiting)
            if queue.full:
                self._pack(queue)

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        with self._outbox.lock:
            queue = self._queue(topic, partition)
            if not queue.waiting:
                self._wake()
            self._outbox.records += 1
            self._outbox.size += queue.append(value, key, time.monotonic())
        if queue.full:
            self._pack(queue)

    def _pack(self, queue: Queue) -> None:
        """Make batches of what waits, here: senders that compute would hold up this thread, and it them."""
        drafts = []
        with self._outbox.lock:
            while queue.waiting:
                drafts.append(queue.take())
        parcels = [draft.pack() for draft in drafts]
        with self._outbox.lock:
            queue.parcels += parcels
            self._wake()

    def _queue(self, topic: str, partition: int) -> Queue:
        queue = self._outbox.queues.get((topic, partition))
        if queue is None:
            if not self._outbox.queues:
                self._finder.start()
            queue = self._outbox.queues[topic, partition] = Queue(topic, partition)
            self._finder.begin(queue)
        return queue

    def _wake(self) -> None:
        for lane in self._finder.lanes.values():
            lane.wake.notify()

    def push(self) -> None:
        now = time.monotonic()
        if self._outbox.records and now >= self._push_at:
            self._push_at = now + PUSH_EVERY_S
            with self._outbox.lock:
                self._hurry()

    def _hurry(self) -> None:
        for queue in self._outbox.waiting():
            queue.urgent = True
        self._wake()

    def saturated(self) -> bool:
        return self._outbox.records > MAX_RECORDS or self._outbox.size > MAX_BYTES

    def outstanding(self) -> int:
        return self._outbox.records

    def flush(self, timeout_s: float) -> int:
        outbox = self._outbox
        with outbox.lock:
            if outbox.records:
                if not self.saturated():  # then senders have enough to do, and what waits gets company
                    self._hurry()
                outbox.settled.wait_for(lambda: not outbox.records or outbox.broken, timeout_s)
            return outbox.records

    def failures(self) -> list[str]:
        with self._outbox.lock:
            failed, self._outbox.failures = self._outbox.failures, []
            return failed

    def close(self) -> None:
        with self._outbox.lock:
            self._outbox.closed = True
            self._finder.wake.notify()
            self._wake()
            lanes = [*self._finder.lanes.values()]  # the finder makes no more of them
        _join(lanes)
        for lane in lanes:
            lane.disconnect()
        self._cluster.close()
        _join([*lanes, self._finder] if self._finder.ident is not None else lanes)


def _join(threads: Sequence[Thread]) -> None:
    """Wait for the end of all of them, at most DRAIN_S."""
    deadline = time.monotonic() + DRAIN_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
