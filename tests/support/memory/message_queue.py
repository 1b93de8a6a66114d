"""Twin of the Pub/Sub source: a subscription that leases messages, in order per ordering key, and its readers."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headwater.model.record import RecordBatch
from headwater.sources.base import Gap, Positions, RebalanceListener
from headwater.sources.unacknowledged import PARTITIONS, Message, Unacknowledged

LEASE_S = 20.0
MUCH = 1 << 30


@dataclass(slots=True)
class _Waiting:
    """A message without an acknowledgement. holder: who has it, until when; deliveries: how often it was given."""

    id: str
    value: bytes
    ordering_key: str
    timestamp: int
    holder: "MemoryQueueSource | None" = None
    until: float = 0.0
    deliveries: int = 0

    @property
    def ack_id(self) -> str:
        return f"{self.id}:{self.deliveries}"


class MemoryQueue:
    """A subscription. Messages of one ordering key are with one reader at a time; when one of them comes again, all
    behind it do. clock: seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}
        self._acknowledged: list[_Waiting] = []
        self._count = 0

    def publish(self, value: bytes, ordering_key: str = "", timestamp: int = 0) -> str:
        """Add a message; its id."""
        self._count += 1
        message = _Waiting(f"m{self._count}", value, ordering_key, timestamp)
        self._waiting[message.id] = message
        return message.id

    def __len__(self) -> int:
        """How many messages wait for their acknowledgement."""
        return len(self._waiting)

    def deliver(self, reader: "MemoryQueueSource") -> list[Message]:
        """What the reader gets now."""
        self._expire()
        given = []
        holders: dict[str, MemoryQueueSource] = {}
        for message in self._waiting.values():
            key = message.ordering_key or message.id
            holder = holders.setdefault(key, message.holder or reader)
            if holder is reader and message.holder is None:
                message.holder, message.until = reader, self._clock() + LEASE_S
                message.deliveries += 1
                given.append(message)
        return [Message(m.id, m.ack_id, m.value, None, m.ordering_key, m.timestamp) for m in given]

    def _expire(self) -> None:
        free: set[str] = set()
        for message in self._waiting.values():
            if message.until <= self._clock() or message.ordering_key in free:
                message.holder = None
                free.update({message.ordering_key} - {""})

    def renew(self, ack_ids: list[str], seconds: float) -> None:
        """Let leases last so long from now; those that are over already are not renewed."""
        self._expire()
        for message in self._of(ack_ids):
            if message.holder is not None:
                message.until = self._clock() + seconds

    def acknowledge(self, ack_ids: list[str]) -> None:
        """These are done; of one that was given again since, the acknowledgement comes too late."""
        for message in self._of(ack_ids):
            self._acknowledged.append(self._waiting.pop(message.id))

    def repeat(self) -> None:
        """Give the message that was acknowledged last once more, as Pub/Sub may."""
        if self._acknowledged:
            message = self._acknowledged.pop()
            message.holder = None
            self._waiting[message.id] = message

    def _of(self, ack_ids: list[str]) -> list[_Waiting]:
        found = ((ack_id, self._waiting.get(ack_id.rpartition(":")[0])) for ack_id in ack_ids)
        return [message for ack_id, message in found if message is not None and message.ack_id == ack_id]


class MemoryQueueSource:
    """Implements sources.base.Source. Leases are renewed when it polls, so one that stands still loses them."""

    def __init__(
        self, queue: MemoryQueue, sleep: Callable[[float], None] = time.sleep, first: Callable[[], int] = lambda: 0
    ) -> None:
        self._queue = queue
        self._sleep = sleep
        self._kept = Unacknowledged(queue.name, first)
        self._listener: RebalanceListener | None = None
        self._joined = self._paused = False

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        if self._listener is None:
            return RecordBatch.empty(self._queue.name)
        if not self._joined:
            self._joined = True
            self._listener.assigned([*PARTITIONS])
        self._queue.renew(self._kept.ack_ids(), LEASE_S)
        again = [message.ack_id for message in self._queue.deliver(self) if not self._kept.take(message)]
        self._queue.acknowledge(again)
        batch = RecordBatch.empty(self._queue.name) if self._paused else self._kept.read(max_records, MUCH)
        if not batch:
            self._sleep(timeout_s)
        return batch

    def gaps(self) -> list[Gap]:
        return []

    def not_read(self) -> Mapping[int, str]:
        return {}

    def seek(self, positions: Positions) -> None:
        self._kept.seek(positions)

    def commit(self, positions: Positions, *, wait: bool) -> None:
        self._queue.acknowledge(self._kept.commit(positions))

    def committed(self) -> Positions:
        return self._kept.committed()

    def names(self, batch: RecordBatch) -> list[bytes]:
        return list(self._kept.names(batch.partitions, batch.offsets))

    def membership(self) -> object:
        return None

    def read_only(self, partitions: Collection[int] | None) -> None:
        """Do nothing: a queue has no partitions."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self, *, leave: bool = False) -> None:
        self._listener = None
        self._queue.renew(self._kept.ack_ids(), 0)
