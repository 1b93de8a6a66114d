"""The records for one partition that no broker has acknowledged."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from headwater.brokers.wire.batch import FRAMING_BYTES, Batch, Packed, Producer, pack, seal
from headwater.brokers.wire.cluster import pauses
from headwater.children import Backoff
from headwater.model.record import Numbers, Rows
from headwater.native import Portion, Positions, Texts
from headwater.sinks.base import SOURCE_HEADER, Outputs

LINGER_S: Final = 0.05
"""How long a record waits for company: larger requests are cheaper. `push` ends the wait."""
TRICKLE_LINGER_S: Final = 0.02
TRICKLE_BYTES: Final = 32 << 10
"""The same where less waits: little is to come, and a worker that is busy with other records does not push."""
FULL_BYTES: Final = 512 << 10
"""With so much there is company enough."""
MAX_BATCH_BYTES: Final = 1_000_000
"""Before compression; a larger record is a batch of its own. Topics take 1,048,588."""
MAX_ON_THEIR_WAY: Final = 5
"""Batches: of so many a broker knows whether it has them (librdkafka and the Java client send no more either)."""
_POSITION_BYTES: Final = 40


@dataclass(frozen=True, slots=True)
class Parcel:
    """A batch without its number. size: what it counted for while it waited; since: when its first record came."""

    packed: Packed
    size: int
    since: float


@dataclass(frozen=True, slots=True, eq=False)
class Sealed:
    """A batch with its number."""

    batch: Batch
    records: int
    size: int
    since: float


@dataclass(slots=True)
class Waiting:
    """Some rows of outputs. size: what they take in memory and in a batch, in bytes, about."""

    outputs: Outputs
    rows: Rows
    size: int
    since: float

    @classmethod
    def of(cls, outputs: Outputs, rows: Rows, since: float) -> "Waiting":
        """Measures them."""
        texts = [outputs.values, outputs.keys, *([outputs.sources] if outputs.sources else [])]
        size = _common(outputs) * len(rows) + sum(column.size_of(rows) for column in texts)
        return cls(outputs, rows, size, since)

    def split(self, limit: int) -> "tuple[Waiting, Waiting | None]":
        """As many rows as take at most `limit`, at least one, and the others."""
        ends = self.row_sizes().cumsum()
        count = max(1, int(ends.searchsorted(limit, "right")))
        if count == len(self.rows):
            return self, None
        size = int(ends[count - 1])
        first = Waiting(self.outputs, self.rows[:count], size, self.since)
        return first, Waiting(self.outputs, self.rows[count:], self.size - size, self.since)

    def row_sizes(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """What each row takes."""
        columns = [self.outputs.values, self.outputs.keys, *([self.outputs.sources] if self.outputs.sources else [])]
        rows = np.frombuffer(self.rows, np.int32)
        taken = (np.maximum(np.frombuffer(column.sizes, np.int32)[rows], 0) + 1 for column in columns)
        return sum(taken, start=np.full(len(rows), _common(self.outputs), np.int64))

    def portion(self, now_ms: int) -> Portion:
        """It for a batch. now_ms: the present."""
        outputs, times = self.outputs, self.outputs.timestamps
        if not all(times):
            times = Numbers("q", [at or now_ms for at in times])
        tails: Texts | Positions | None = outputs.sources
        if outputs.origin:
            prefix = f"{outputs.origin}/{outputs.partitions[self.rows[0]]}/".encode()
            tails = Positions(prefix, outputs.offsets, outputs.indexes)
        return Portion(self.rows, outputs.values, outputs.keys, times, tails)


@dataclass(slots=True)
class Gathering:
    """Records that came one by one. size: as that of Waiting."""

    since: float
    size: int = 0
    values: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)

    def append(self, value: bytes, key: bytes | None) -> int:
        """One more; what it takes."""
        self.values.append(value)
        self.keys.append(key)
        size = FRAMING_BYTES + len(value) + len(key or b"") + 2
        self.size += size
        return size

    def closed(self, topic: str, partition: int) -> Waiting:
        """All that came."""
        count = len(self.values)
        outputs = Outputs.of(topic, self.values, self.keys, [partition] * count, [0] * count)
        return Waiting(outputs, Rows("i", range(count)), self.size, self.since)


def _common(outputs: Outputs) -> int:
    header_bytes = sum(len(name) + len(value) for name, value in outputs.headers) if outputs.headers else 0
    return FRAMING_BYTES + header_bytes + (len(outputs.origin) + _POSITION_BYTES if outputs.origin else 0)


@dataclass(slots=True, eq=False)
class Queue:
    """What waits and the parcels are guarded by the outbox's lock; all else belongs to the thread that has the queue.

    waiting: for company. urgent: it is to be sent at once. parcels: older than what waits. sealed: batches in order;
    the first `sent` of them are on their way. unanswered: how many requests with one of them are. known: the broker has
    taken one. From a producer that is new to it, it takes whatever comes first (KAFKA-15591), so that nothing may be on
    its way behind a batch that it may refuse. held: one was not taken, so that those behind it come again. lost_since:
    when its broker was first not known. retry_at: before that nobody looks for it.
    """

    topic: str
    partition: int
    waiting: deque[Waiting | Gathering] = field(default_factory=deque)
    waiting_bytes: int = 0
    urgent: bool = False
    parcels: deque[Parcel] = field(default_factory=deque)
    sealed: deque[Sealed] = field(default_factory=deque)
    sent: int = 0
    unanswered: int = 0
    known: bool = False
    held: bool = False
    sequence: int = 0
    lost_since: float = 0.0
    lost_because: str = ""
    retry_at: float = 0.0
    backoff: Backoff = field(default_factory=pauses)

    def add(self, records: Waiting) -> None:
        """Let records wait."""
        self.waiting.append(records)
        self.waiting_bytes += records.size

    def append(self, value: bytes, key: bytes | None, now: float) -> int:
        """Let one record wait that has the present time; what it takes."""
        last = self.waiting[-1] if self.waiting else None
        if not isinstance(last, Gathering):
            last = Gathering(now)
            self.waiting.append(last)
        size = last.append(value, key)
        self.waiting_bytes += size
        return size

    @property
    def full(self) -> bool:
        """True when what waits has company enough."""
        return self.waiting_bytes >= FULL_BYTES

    def due_at(self) -> float:
        """When there is something to send, on the monotonic clock."""
        if self.held or self.sent >= (MAX_ON_THEIR_WAY if self.known else 1):
            return float("inf")
        if self.sent < len(self.sealed) or self.parcels or (self.waiting and self.urgent):
            return 0.0
        if not self.waiting:
            return float("inf")
        return self.waiting[0].since + (TRICKLE_LINGER_S if self.waiting_bytes < TRICKLE_BYTES else LINGER_S)

    def oldest(self) -> float:
        """When the first record came that is not acknowledged."""
        firsts = (each[0].since for each in (self.sealed, self.parcels, self.waiting) if each)
        return next(firsts, float("inf"))

    def take(self) -> "Draft":
        """What of those who wait makes the next batch."""
        portions = [self._next(MAX_BATCH_BYTES)]
        first, size = portions[0], portions[0].size
        while self.waiting and size + self.waiting[0].size <= MAX_BATCH_BYTES and _alike(first, self._head()):
            portions.append(self._next(MAX_BATCH_BYTES))
            size += portions[-1].size
        self.waiting_bytes -= size
        self.urgent = self.urgent and bool(self.waiting)
        return Draft(portions, size, first.since)

    def _head(self) -> Waiting:
        """The first of those who wait."""
        head = self.waiting[0]
        if isinstance(head, Gathering):
            head = self.waiting[0] = head.closed(self.topic, self.partition)
        return head

    def _next(self, limit: int) -> Waiting:
        """The first of those who wait, or as many of them as one batch takes."""
        first = self._head()
        self.waiting.popleft()
        if first.size <= limit:
            return first
        first, rest = first.split(limit)
        if rest is not None:
            self.waiting.appendleft(rest)
        return first

    def seal(self, parcel: Parcel, producer: Producer) -> None:
        """Give a batch its number."""
        batch, count = seal(parcel.packed, producer, self.sequence), parcel.packed.records
        self.sealed.append(Sealed(batch, count, parcel.size, parcel.since))
        self.sequence = (self.sequence + count) % (1 << 31)

    def again(self) -> None:
        """Whatever was on its way comes again."""
        self.sent = self.unanswered = 0
        self.held = False


def _alike(one: Waiting, other: Waiting) -> bool:
    ours, theirs = one.outputs, other.outputs
    same_kind = bool(ours.sources) == bool(theirs.sources) and ours.origin == theirs.origin
    return same_kind and ours.headers == theirs.headers


@dataclass(frozen=True, slots=True)
class Draft:
    """Records that become one batch."""

    portions: list[Waiting]
    size: int
    since: float

    def pack(self) -> Parcel:
        """Without a lock: it takes a while."""
        first, now_ms = self.portions[0].outputs, time.time_ns() // 1_000_000
        last = SOURCE_HEADER if first.sources or first.origin else ""
        packed = pack([portion.portion(now_ms) for portion in self.portions], first.headers, last)
        return Parcel(packed, self.size, self.since)
