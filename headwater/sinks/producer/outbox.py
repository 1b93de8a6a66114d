"""What the threads of a producer share."""

import threading
from collections.abc import Iterator

from headwater.brokers.wire.turns import Turns
from headwater.sinks.producer.queue import Queue, Sealed


class Sender(Turns):
    """A thread of a producer, which ends with it. wake: told when it may have something to do."""

    def __init__(self, outbox: "Outbox", name: str) -> None:
        super().__init__(name)
        self.wake = threading.Condition(outbox.lock)
        self._outbox = outbox

    def _broke(self, error: BaseException) -> None:
        with self._outbox.lock:
            self._outbox.fail(None, f"{self.name} ended: {error!r}")


class Outbox:
    """Counts of what is not acknowledged, and what went wrong. `lock` guards all of it, and what waits in queues.

    settled: told when nothing is left, or something was refused. closed: what is on its way is waited for, nothing
    else is sent.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.settled = threading.Condition(self.lock)
        self.queues: dict[tuple[str, int], Queue] = {}
        self.records = 0
        self.size = 0
        self.failures: list[str] = []
        self.broken = False
        self.closed = False

    @property
    def stopped(self) -> bool:
        """True when nothing more may be sent."""
        return self.broken or self.closed

    def acknowledged(self, batch: Sealed) -> None:
        """A broker has it. With the lock."""
        self.records -= batch.records
        self.size -= batch.size
        if not self.records:
            self.settled.notify_all()

    def fail(self, queue: Queue | None, reason: str) -> None:
        """Something was refused for good. With the lock."""
        self.failures.append(reason if queue is None else f"{queue.topic}, partition {queue.partition}: {reason}")
        self.broken = True
        self.settled.notify_all()

    def waiting(self) -> Iterator[Queue]:
        """The queues where records wait for company. With the lock."""
        return (queue for queue in self.queues.values() if queue.waiting)
