"""The way to one broker: a thread that sends it the batches of the partitions that it leads."""

import time
from collections import deque
from typing import Final, Protocol

from confluent_kafka import KafkaError

from headwater.brokers.wire.batch import Batch, Producer
from headwater.brokers.wire.codes import NO_ERROR, PASSING, described
from headwater.brokers.wire.connection import Connection, ConnectionLost, LoginRefused
from headwater.brokers.wire.produce import Produce
from headwater.brokers.wire.requests import Address
from headwater.model.worker import KafkaAccess
from headwater.sinks.producer.outbox import Outbox, Sender
from headwater.sinks.producer.queue import Draft, Parcel, Queue, Sealed

MAX_REQUESTS: Final = 4
"""On their way to one broker: it works on one while the next is made."""
CONNECT_S: Final = 10.0
BROKER_TIMEOUT_S: Final = 30.0
"""How long a broker may wait for its replicas."""
ANSWER_S: Final = BROKER_TIMEOUT_S + 5.0
_TAKEN: Final = frozenset({NO_ERROR, KafkaError.DUPLICATE_SEQUENCE_NUMBER})

Sent = list[tuple[Queue, Sealed]]


def _next(queue: Queue) -> Parcel | Draft:
    return queue.parcels.popleft() if queue.parcels else queue.take()


class Owner(Protocol):
    """Who looks for the brokers of queues."""

    producer: Producer | None
    """Known before any of the queues has a lane."""

    def take(self, queues: list[Queue]) -> None:
        """These have lost their broker, or it did not take their batches. With the outbox's lock."""


class Lane(Sender):
    """Ends when the outbox is closed and all on its way is answered, or its connection lost."""

    def __init__(self, outbox: Outbox, access: KafkaAccess, address: Address, owner: Owner) -> None:
        super().__init__(outbox, f"producer-{address[0]}:{address[1]}")
        self.queues: list[Queue] = []
        self._access = access
        self._address = address
        self._owner = owner
        self._connection: Connection | None = None
        self._on_their_way: deque[Sent] = deque()

    def disconnect(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.close()

    def _turn(self) -> bool:
        """Send what is due, or else wait for an answer. False at the end."""
        with self._outbox.lock:
            due = self._due()
            while not due and not self._on_their_way:
                if self._outbox.closed:
                    return False
                self.wake.wait(self._patience_s())
                due = self._due()
            unsealed = [(queue, _next(queue)) for queue in due if queue.sent == len(queue.sealed)]
        producer = self._owner.producer
        assert producer is not None
        for queue, batch in unsealed:
            queue.seal(batch.pack() if isinstance(batch, Draft) else batch, producer)
        try:
            if due:
                self._send(due)
            else:
                self._receive()
        except (ConnectionLost, LoginRefused) as error:
            self._give_up(str(error))
        return True

    def _due(self) -> list[Queue]:
        if self._outbox.stopped or len(self._on_their_way) >= MAX_REQUESTS:
            return []
        now = time.monotonic()
        return [queue for queue in self.queues if queue.due_at() <= now]

    def _patience_s(self) -> float | None:
        """How long until something is due; None when that is not known."""
        if self._outbox.stopped:
            return None
        first = min((queue.due_at() for queue in self.queues), default=float("inf"))
        return None if first == float("inf") else max(0.0, first - time.monotonic())

    def _send(self, queues: list[Queue]) -> None:
        batches: Sent = []
        topics: dict[str, list[tuple[int, Batch]]] = {}
        for queue in queues:
            batch = queue.sealed[queue.sent]
            queue.sent += 1
            queue.unanswered += 1
            batches.append((queue, batch))
            topics.setdefault(queue.topic, []).append((queue.partition, batch.batch))
        connection = self._connection or self._connect()
        connection.send(Produce(topics, BROKER_TIMEOUT_S))
        self._on_their_way.append(batches)

    def _connect(self) -> Connection:
        connection = Connection(self._access, *self._address, CONNECT_S)
        connection.wait_for(ANSWER_S)
        with self._outbox.lock:
            self._connection = connection
            if self._outbox.closed:  # meanwhile: a successor may write already
                raise ConnectionLost("the producer is closed")
        return connection

    def _receive(self) -> None:
        assert self._connection is not None
        codes = self._connection.receive()
        with self._outbox.lock:
            for queue, batch in self._on_their_way.popleft():
                self._settle(queue, batch, codes.get((queue.topic, queue.partition), KafkaError.UNKNOWN))

    def _settle(self, queue: Queue, batch: Sealed, code: int) -> None:
        queue.unanswered -= 1
        if code in _TAKEN:
            self._acknowledge(queue, batch)
        elif code in PASSING:
            queue.held, queue.lost_because = True, described(code)
        elif not queue.held:  # what follows a batch that was not taken is refused for that
            self._outbox.fail(queue, described(code))
        if queue.held and not queue.unanswered:
            queue.again()
            self._pass_on([queue])

    def _acknowledge(self, queue: Queue, batch: Sealed) -> None:
        """One behind a batch that comes again comes again too, and is known then."""
        if queue.sealed[0] is batch:
            queue.sealed.popleft()
            queue.sent -= 1
            queue.known = True
            queue.backoff.reset()
            queue.lost_because = ""
            self._outbox.acknowledged(batch)

    def _give_up(self, why: str) -> None:
        """The connection is gone, and with it the answers."""
        self.disconnect()
        self._connection = None
        with self._outbox.lock:
            self._on_their_way.clear()
            for queue in self.queues:
                queue.again()
                queue.lost_because = why
            self._pass_on([*self.queues])

    def _pass_on(self, queues: list[Queue]) -> None:
        self.queues = [queue for queue in self.queues if queue not in queues]
        self._owner.take(queues)
