"""In-memory implementation of the Pub/Sub source, for tests."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headwater.model.record import RecordBatch
from headwater.sources.base import Gap, Positions, RebalanceListener
from headwater.sources.unacked_messages import PARTITIONS, Message, UnackedMessages

LEASE_S = 20.0
UNLIMITED_BYTES = 1 << 30


@dataclass(slots=True)
class _UnackedMessage:
    """A message that is not acknowledged yet.

    Attributes:
        holder: The reader that has leased the message.
        lease_ends_at: When the lease ends.
        deliveries: How often the message was delivered.
    """

    id: str
    value: bytes
    ordering_key: str
    timestamp: int
    holder: "MemoryQueueSource | None" = None
    lease_ends_at: float = 0.0
    deliveries: int = 0

    @property
    def ack_id(self) -> str:
        return f"{self.id}:{self.deliveries}"


class MemoryQueue:
    """A subscription. Its clock returns seconds.

    Messages of one ordering key are leased to one reader at a time. When one of them is redelivered, all later messages
    of that key are redelivered, too.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._unacked: dict[str, _UnackedMessage] = {}
        self._acknowledged: list[_UnackedMessage] = []
        self._count = 0

    def publish(self, value: bytes, ordering_key: str = "", timestamp: int = 0) -> str:
        """Add a message, and return its id."""
        self._count += 1
        message = _UnackedMessage(f"m{self._count}", value, ordering_key, timestamp)
        self._unacked[message.id] = message
        return message.id

    def __len__(self) -> int:
        """Return how many messages are not acknowledged."""
        return len(self._unacked)

    def deliver(self, reader: "MemoryQueueSource") -> list[Message]:
        """Lease all available messages to a reader, and return them."""
        self._expire()
        leased = []
        holders: dict[str, MemoryQueueSource] = {}
        for message in self._unacked.values():
            key = message.ordering_key or message.id
            holder = holders.setdefault(key, message.holder or reader)
            if holder is reader and message.holder is None:
                message.holder, message.lease_ends_at = reader, self._clock() + LEASE_S
                message.deliveries += 1
                leased.append(message)
        return [Message(m.id, m.ack_id, m.value, None, m.ordering_key, m.timestamp) for m in leased]

    def _expire(self) -> None:
        free: set[str] = set()
        for message in self._unacked.values():
            if message.lease_ends_at <= self._clock() or message.ordering_key in free:
                message.holder = None
                free.update({message.ordering_key} - {""})

    def renew(self, ack_ids: list[str], seconds: float) -> None:
        """Let leases end in `seconds` from now. Leases that have ended already are not renewed."""
        self._expire()
        for message in self._of(ack_ids):
            if message.holder is not None:
                message.lease_ends_at = self._clock() + seconds

    def acknowledge(self, ack_ids: list[str]) -> None:
        """Remove acknowledged messages.

        The ack id of an earlier delivery of a redelivered message is ignored.
        """
        for message in self._of(ack_ids):
            self._acknowledged.append(self._unacked.pop(message.id))

    def redeliver_last(self) -> None:
        """Redeliver the message that was acknowledged last, as Pub/Sub may do."""
        if self._acknowledged:
            message = self._acknowledged.pop()
            message.holder = None
            self._unacked[message.id] = message

    def _of(self, ack_ids: list[str]) -> list[_UnackedMessage]:
        found = ((ack_id, self._unacked.get(ack_id.rpartition(":")[0])) for ack_id in ack_ids)
        return [message for ack_id, message in found if message is not None and message.ack_id == ack_id]


class MemoryQueueSource:
    """Implements sources.base.Source.

    It renews its leases in `poll`, so a reader that does not poll loses them.
    """

    def __init__(
        self,
        queue: MemoryQueue,
        sleep: Callable[[float], None] = time.sleep,
        first_offset: Callable[[], int] = lambda: 0,
    ) -> None:
        self._queue = queue
        self._sleep = sleep
        self._unacked = UnackedMessages(queue.name, first_offset)
        self._listener: RebalanceListener | None = None
        self._joined = self._paused = False

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        if self._listener is None:
            return RecordBatch.empty(self._queue.name)
        if not self._joined:
            self._joined = True
            self._listener.on_assigned([*PARTITIONS])
        self._queue.renew(self._unacked.ack_ids(), LEASE_S)
        repeats = [message.ack_id for message in self._queue.deliver(self) if not self._unacked.add(message)]
        self._queue.acknowledge(repeats)
        batch = RecordBatch.empty(self._queue.name)
        if not self._paused:
            batch = self._unacked.read(max_records, UNLIMITED_BYTES)
        if not batch:
            self._sleep(timeout_s)
        return batch

    def take_gaps(self) -> list[Gap]:
        return []

    def unreadable(self) -> Mapping[int, str]:
        return {}

    def seek(self, positions: Positions) -> None:
        self._unacked.seek(positions)

    def commit(self, positions: Positions, *, wait: bool) -> None:
        self._queue.acknowledge(self._unacked.commit(positions))

    def committed(self) -> Positions:
        return self._unacked.committed()

    def source_ids(self, batch: RecordBatch) -> list[bytes]:
        return list(self._unacked.message_ids(batch.partitions, batch.offsets))

    def group_metadata(self) -> object:
        return None

    def restrict_to(self, partitions: Collection[int] | None) -> None:
        """Do nothing: a queue has no partitions."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self, *, leave_group: bool = False) -> None:
        self._listener = None
        self._queue.renew(self._unacked.ack_ids(), 0)
