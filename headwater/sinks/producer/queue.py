"""The records for one partition that no broker has acknowledged."""

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, repeat
from typing import Final

from headwater.brokers.wire.batch import FRAMING_BYTES, Batch, Packed, Producer, Records, pack, seal
from headwater.children import Backoff
from headwater.native import Positions
from headwater.sinks.base import SOURCE_HEADER, Outputs

LINGER_S: Final = 0.05
"""How long a record waits for company: larger requests are cheaper. `push` ends the wait."""
FULL_BYTES: Final = 512 << 10
"""With so much there is company enough."""
MAX_BATCH_BYTES: Final = 1_000_000
"""Before compression; a larger record is a batch of its own. Topics take 1,048,588."""
MAX_ON_THEIR_WAY: Final = 5
"""Batches: of so many a broker knows whether it has them (librdkafka and the Java client send no more either)."""
_POSITION_BYTES: Final = 40
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


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
class _Portion:
    outputs: Outputs
    size: int
    since: float


def size_of(outputs: Outputs) -> int:
    """What the records take in memory and in a batch, in bytes, about."""
    keys = sum(map(len, filter(None, outputs.keys)))
    return _common(outputs) * len(outputs) + sum(outputs.sizes) + keys + sum(map(len, outputs.sources))


def row_sizes(outputs: Outputs) -> list[int]:
    """The same for each record."""
    common = _common(outputs)
    rows = zip(outputs.sizes, outputs.keys, outputs.sources or repeat(b""), strict=False)
    return [common + size + len(key or b"") + len(source) for size, key, source in rows]


def _common(outputs: Outputs) -> int:
    header_bytes = sum(len(name) + len(value) for name, value in outputs.headers) if outputs.headers else 0
    return FRAMING_BYTES + header_bytes + (len(outputs.origin) + _POSITION_BYTES if outputs.origin else 0)


@dataclass(slots=True, eq=False)
class Queue:
    """What waits and the parcels are guarded by the outbox's lock; all else belongs to the thread that has the queue.

    waiting: for company. urgent: it is to be sent at once. parcels: older than what waits. sealed: batches in order;
    the first `sent` of them are on their way. unanswered: how many requests with one of them are. held: one was not
    taken, so that those behind it come again. lost_since: when its broker was first not known. retry_at: before that
    nobody looks for it.
    """

    topic: str
    partition: int
    waiting: deque[_Portion] = field(default_factory=deque)
    waiting_bytes: int = 0
    urgent: bool = False
    parcels: deque[Parcel] = field(default_factory=deque)
    sealed: deque[Sealed] = field(default_factory=deque)
    sent: int = 0
    unanswered: int = 0
    held: bool = False
    sequence: int = 0
    lost_since: float = 0.0
    retry_at: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S))

    def add(self, outputs: Outputs, size: int, now: float) -> None:
        """Let records wait."""
        self.waiting.append(_Portion(outputs, size, now))
        self.waiting_bytes += size

    @property
    def full(self) -> bool:
        """True when what waits has company enough."""
        return self.waiting_bytes >= FULL_BYTES

    def due_at(self) -> float:
        """When there is something to send, on the monotonic clock."""
        if self.held or self.sent >= MAX_ON_THEIR_WAY:
            return float("inf")
        if self.sent < len(self.sealed) or self.parcels or (self.waiting and self.urgent):
            return 0.0
        return self.waiting[0].since + LINGER_S if self.waiting else float("inf")

    def oldest(self) -> float:
        """When the first record came that is not acknowledged."""
        firsts = (each[0].since for each in (self.sealed, self.parcels, self.waiting) if each)
        return next(firsts, float("inf"))

    def take(self) -> "Draft":
        """What of those who wait makes the next batch."""
        portions = [self._next(MAX_BATCH_BYTES)]
        first, size = portions[0], portions[0].size
        while self.waiting and size + self.waiting[0].size <= MAX_BATCH_BYTES and _alike(first, self.waiting[0]):
            portions.append(self.waiting.popleft())
            size += portions[-1].size
        self.waiting_bytes -= size
        self.urgent = self.urgent and bool(self.waiting)
        return Draft(portions, size, first.since)

    def _next(self, limit: int) -> _Portion:
        """The first portion, or as much of it as one batch takes."""
        portion = self.waiting.popleft()
        outputs = portion.outputs
        if portion.size <= limit or len(outputs) == 1:
            return portion
        ends = [*accumulate(row_sizes(outputs))]
        count = max(1, bisect_right(ends, limit))
        rest = _Portion(outputs.part(count, len(outputs)), portion.size - ends[count - 1], portion.since)
        if len(rest.outputs):
            self.waiting.appendleft(rest)
        return _Portion(outputs.part(0, count), ends[count - 1], portion.since)

    def seal(self, parcel: Parcel, producer: Producer) -> None:
        """Give a batch its number."""
        batch, count = seal(parcel.packed, producer, self.sequence), parcel.packed.records
        self.sealed.append(Sealed(batch, count, parcel.size, parcel.since))
        self.sequence = (self.sequence + count) % (1 << 31)

    def again(self) -> None:
        """Whatever was on its way comes again."""
        self.sent = self.unanswered = 0
        self.held = False


def _alike(one: _Portion, other: _Portion) -> bool:
    ours, theirs = one.outputs, other.outputs
    same_kind = bool(ours.sources) == bool(theirs.sources) and ours.origin == theirs.origin
    return same_kind and ours.headers == theirs.headers


@dataclass(frozen=True, slots=True)
class Draft:
    """Records that become one batch."""

    portions: list[_Portion]
    size: int
    since: float

    def pack(self) -> Parcel:
        """Without a lock: it takes a while."""
        return Parcel(pack(self._records(time.time_ns() // 1_000_000)), self.size, self.since)

    def _records(self, now_ms: int) -> Records:
        parts = [portion.outputs for portion in self.portions]
        first = parts[0]
        times = [*chain.from_iterable(part.timestamps for part in parts)]
        if not all(times):
            times = [at or now_ms for at in times]
        return Records(
            values=[*chain.from_iterable(part.values for part in parts)],
            sizes=[*chain.from_iterable(part.sizes for part in parts)],
            keys=[*chain.from_iterable(part.keys for part in parts)],
            timestamps=times,
            headers=first.headers,
            last=SOURCE_HEADER if first.sources or first.origin else "",
            lasts=self._sources(parts),
        )

    @staticmethod
    def _sources(parts: Sequence[Outputs]) -> Sequence[bytes] | Positions:
        first = parts[0]
        if not first.origin:
            return [*chain.from_iterable(part.sources for part in parts)]
        return Positions(
            f"{first.origin}/{first.partitions[0]}/".encode(),
            [*chain.from_iterable(part.offsets for part in parts)],
            [*chain.from_iterable(part.indexes for part in parts)],
        )
