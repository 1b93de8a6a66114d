"""Finds the brokers of partitions, and gives the partitions' queues to the lanes that lead there."""

import time
from typing import Final

from confluent_kafka import KafkaError

from headwater.brokers.wire.batch import Producer
from headwater.brokers.wire.cluster import Cluster, Layout, ProducerRefused
from headwater.brokers.wire.codes import PASSING, described
from headwater.brokers.wire.connection import ConnectionLost, LoginRefused
from headwater.brokers.wire.requests import Address
from headwater.model.worker import KafkaAccess
from headwater.sinks.producer.lane import Lane
from headwater.sinks.producer.outbox import Outbox, Sender
from headwater.sinks.producer.queue import Queue

UNKNOWN_TOPIC_S: Final = 30.0
"""How long a topic may be unknown: a new one is not at all brokers at once."""


class Finder(Sender):
    """Implements lane.Owner. give_up_after_s: how long a record may wait for its acknowledgement."""

    def __init__(self, outbox: Outbox, access: KafkaAccess, cluster: Cluster, give_up_after_s: float) -> None:
        super().__init__(outbox, "producer-finder")
        self.producer: Producer | None = None
        self.lanes: dict[Address, Lane] = {}
        self._cluster = cluster
        self._access = access
        self._give_up_after_s = give_up_after_s
        self._lost: list[Queue] = []

    def take(self, queues: list[Queue]) -> None:
        """See Owner."""
        now = time.monotonic()
        for queue in queues:
            queue.lost_since = now
            queue.retry_at = now + queue.backoff.next_s()
        self._add(queues)

    def begin(self, queue: Queue) -> None:
        """A new queue. With the outbox's lock."""
        queue.lost_since = time.monotonic()
        self._add([queue])

    def _add(self, queues: list[Queue]) -> None:
        self._lost += queues
        self.wake.notify()

    def disconnect(self) -> None:
        self._cluster.close()

    def _turn(self) -> bool:
        with self._outbox.lock:
            while not (ready := self._ready()):
                if self._outbox.closed:
                    return False
                self.wake.wait(self._patience_s())
        layout = self._look(ready)
        with self._outbox.lock:
            if self._outbox.closed:
                return False
            for queue in ready:
                self._place(queue, layout)
            if not self._lost:
                self._cluster.close()
        return True

    def _look(self, queues: list[Queue]) -> Layout:
        try:
            self.producer = self.producer or self._cluster.new_producer()
            return self._cluster.layout([*{queue.topic for queue in queues}])
        except (ConnectionLost, LoginRefused) as error:
            for queue in queues:
                queue.lost_because = str(error)
            return Layout({}, {})
        except ProducerRefused as error:
            return Layout({}, {queue.topic: error.code for queue in queues})

    def _ready(self) -> list[Queue]:
        """The queues to look for now. Those that are overdue end the producer."""
        now = time.monotonic()
        if self._outbox.stopped:
            return []
        for queue in self._lost:
            if now - queue.oldest() > self._give_up_after_s:
                why = f" ({queue.lost_because})" if queue.lost_because else ""
                self._outbox.fail(queue, f"no acknowledgement within {self._give_up_after_s:.0f} s{why}")
                return []
        return [queue for queue in self._lost if queue.retry_at <= now]

    def _patience_s(self) -> float | None:
        if self._outbox.stopped or not self._lost:
            return None
        return max(0.0, min(queue.retry_at for queue in self._lost) - time.monotonic())

    def _place(self, queue: Queue, layout: Layout) -> None:
        leader = layout.leaders.get((queue.topic, queue.partition))
        if leader is None:
            self._wait(queue, layout.faults.get(queue.topic, KafkaError.LEADER_NOT_AVAILABLE))
            return
        self._lost.remove(queue)
        lane = self.lanes.get(leader.address)
        if lane is None:
            lane = self.lanes[leader.address] = Lane(self._outbox, self._access, leader.address, self)
            lane.start()
        lane.queues.append(queue)
        lane.wake.notify()

    def _wait(self, queue: Queue, fault: int) -> None:
        now = time.monotonic()
        queue.retry_at = now + queue.backoff.next_s()
        unknown = fault == KafkaError.UNKNOWN_TOPIC_OR_PART
        if fault not in PASSING or (unknown and now - queue.lost_since > UNKNOWN_TOPIC_S):
            self._outbox.fail(queue, described(fault))
