"""What the threads of a fetcher share."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.brokers.wire.cluster import Leader, pauses
from headwater.brokers.wire.reading import Batch
from headwater.brokers.wire.turns import Turns
from headwater.children import Backoff

MAX_BYTES: Final = 16 << 20
"""With so much on the shelf, not compressed, nothing more is fetched."""


class Stop(NamedTuple):
    """Where a partition can't be read on: the log does not hold this offset. end: where it ends, if the broker told."""

    offset: int
    end: int | None = None


class Trouble(NamedTuple):
    """Why a partition can't be read, and since when. lasts: it is no outage, which would be waited out."""

    why: str
    since: float
    lasts: bool


@dataclass(slots=True, eq=False)
class Reading:
    """A partition from one offset on; a seek begins another reading.

    offset: what is fetched next. last_epoch: of the last record; epochs: from which offset on records have which, as
    far as it is known. leader: None while the scout looks for it, not before retry_at. trouble: None once it is read
    again. taken: records of the first batch that the engine has already.
    """

    partition: int
    offset: int
    last_epoch: int = -1
    epochs: tuple[tuple[int, int], ...] = ()
    leader: Leader | None = None
    retry_at: float = 0.0
    backoff: Backoff = field(default_factory=pauses)
    trouble: Trouble | None = None
    stop: Stop | None = None
    batches: deque[Batch] = field(default_factory=deque)
    taken: int = 0
    size: int = 0

    def epoch_before(self, position: int) -> int:
        """The leader epoch of the record before a position; -1 when it is not known."""
        return next((epoch for first, epoch in reversed(self.epochs) if first < position), -1)

    def rewind(self, offset: int) -> None:
        """Fetch again from an offset on that was fetched before."""
        self.offset = offset
        self.epochs = tuple(each for each in self.epochs if each[0] < offset)
        self.last_epoch = self.epoch_before(offset)

    def put(self, batch: Batch) -> None:
        """What was fetched next."""
        self.batches.append(batch)
        self.size += len(batch.body)

    def lose(self, why: str, *, lasts: bool) -> None:
        """Look for the leader again, after a pause."""
        now = time.monotonic()
        self.leader = None
        self.retry_at = now + self.backoff.next_s()
        self.trouble = Trouble(why, now if self.trouble is None else self.trouble.since, lasts)


class Shelf:
    """What came and was not taken, by partition. `lock` guards all of it.

    arrived: told when the engine has something to do; changed: when the threads may have. order: a reading for each of
    its batches, as they came. broken: what has ended a thread. closed: nothing more is wanted.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.changed = threading.Condition(self.lock)
        self.readings: dict[int, Reading] = {}
        self.order: deque[Reading] = deque()
        self.size = 0
        self.broken: BaseException | None = None
        self.closed = False

    def holds(self, reading: Reading) -> bool:
        """Whether it goes on. With the lock."""
        return self.readings.get(reading.partition) is reading

    def put(self, reading: Reading, batch: Batch) -> None:
        """With the lock."""
        if self.holds(reading):
            reading.put(batch)
            self.size += len(batch.body)
            self.order.append(reading)
            self.arrived.notify()

    def end(self, partition: int) -> None:
        """Of a partition. With the lock."""
        reading = self.readings.pop(partition, None)
        if reading is not None:
            self.size -= reading.size
            self.order = deque(each for each in self.order if each is not reading)


class Helper(Turns):
    """A thread of a fetcher. An error in one reaches the engine."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        super().__init__(name)
        self._shelf = shelf

    def _broke(self, error: BaseException) -> None:
        with self._shelf.lock:
            self._shelf.broken = error
            self._shelf.arrived.notify()
