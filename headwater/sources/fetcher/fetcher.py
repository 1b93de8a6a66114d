"""The fetcher as the engine's thread sees it."""

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headwater.brokers.wire.fetch import UNKNOWN_EPOCH
from headwater.brokers.wire.reading import Batch
from headwater.errors import BrokerUnavailable
from headwater.model.record import Numbers, RecordBatch
from headwater.model.worker import KafkaAccess
from headwater.native import Texts
from headwater.sources.fetcher.scout import Scout
from headwater.sources.fetcher.shelf import MAX_BYTES, Reading, Shelf, Stop

JOIN_S: Final = 2.0
NO_EPOCHS: Final = MappingProxyType[int, int]({})
OUTAGE_TOLD_S: Final = 3.0
"""How long an outage may last before it is told: `deploy/stats` is true within 5 s."""


class _Portion(NamedTuple):
    """Records [first, end) of a batch."""

    batch: Batch
    partition: int
    first: int
    end: int


class Fetcher:
    """Reads committed records of one topic, from the partitions that it is given. Used by one thread."""

    def __init__(self, access: KafkaAccess, topic: str) -> None:
        self._topic = topic
        self._shelf = Shelf()
        self._scout = Scout(self._shelf, access, topic)

    def begin(self, offsets: Mapping[int, int], epochs: Mapping[int, int] = NO_EPOCHS) -> None:
        """Read these partitions from these offsets on. What was read of them before and not taken is forgotten.

        epochs: by partition, the leader epoch of the record before. The broker compares it with what it has there: a
        log that was cut off since may be longer again.
        """
        with self._shelf.lock:
            for partition, offset in offsets.items():
                self._shelf.end(partition)
                epoch = epochs.get(partition, UNKNOWN_EPOCH)
                self._shelf.readings[partition] = Reading(partition, offset, epoch, ((offset - 1, epoch),))
            self._shelf.changed.notify_all()
        if offsets and self._scout.ident is None:
            self._scout.start()

    def end(self, partitions: Iterable[int]) -> None:
        """Read these no more, and forget what was not taken."""
        with self._shelf.lock:
            for partition in partitions:
                self._shelf.end(partition)
            self._shelf.changed.notify_all()

    def stops(self) -> dict[int, Stop]:
        """The partitions that can't be read on, and of which all else is taken."""
        with self._shelf.lock:
            readings = self._shelf.readings.values()
            return {each.partition: each.stop for each in readings if each.stop is not None and not each.batches}

    def epoch_before(self, partition: int, position: int) -> int:
        """The leader epoch of the record before a position; -1 when it is not known."""
        with self._shelf.lock:
            reading = self._shelf.readings.get(partition)
        return UNKNOWN_EPOCH if reading is None else reading.epoch_before(position)

    def troubles(self) -> list[str]:
        """Why partitions are not read, one sentence each. An outage only when it is no short one."""
        told = time.monotonic() - OUTAGE_TOLD_S
        with self._shelf.lock:
            troubles = [each.trouble for each in self._shelf.readings.values() if each.trouble is not None]
        return [each.why for each in troubles if each.lasts or each.since < told]

    def take(self, max_records: int, max_bytes: int, timeout_s: float) -> RecordBatch:
        """The next records, as they came, in order per partition: about `max_bytes`, at least one.

        Waits for the first at most `timeout_s`. Raises BrokerUnavailable when no partition can be read, and it is no
        outage: call it again.
        """
        with self._shelf.lock:
            if timeout_s and not self._ready():
                self._shelf.arrived.wait(timeout_s)
            if self._shelf.broken is not None:
                raise self._shelf.broken
            if why := self._unread():
                raise BrokerUnavailable(why)
            portions = self._portions(max_records, max_bytes)
        return _joined(self._topic, portions)

    def _ready(self) -> bool:
        shelf = self._shelf
        stopped = any(each.stop is not None and not each.batches for each in shelf.readings.values())
        return bool(shelf.order) or stopped or shelf.broken is not None or bool(self._unread())

    def _unread(self) -> str:
        """Why there is nothing to take, and won't be soon."""
        if self._shelf.order:
            return ""
        troubles = [each.trouble for each in self._shelf.readings.values()]
        lasting = [trouble.why for trouble in troubles if trouble is not None and trouble.lasts]
        return lasting[0] if lasting and len(lasting) == len(troubles) else ""

    def _portions(self, max_records: int, max_bytes: int) -> list[_Portion]:
        shelf, portions = self._shelf, list[_Portion]()
        full = shelf.size >= MAX_BYTES
        while shelf.order and max_records > 0 and max_bytes > 0:
            portion = self._next(max_records, max_bytes)
            portions.append(portion)
            count = portion.end - portion.first
            max_records -= count
            max_bytes -= _bytes_of(portion.batch) * count
        if full and shelf.size < MAX_BYTES:
            shelf.changed.notify_all()
        return portions

    def _next(self, max_records: int, max_bytes: int) -> _Portion:
        """Of the batch that came first."""
        shelf = self._shelf
        reading = shelf.order[0]
        batch, first = reading.batches[0], reading.taken
        count = len(batch.columns.offsets)
        end = min(count, first + max_records, first + 1 + max_bytes // _bytes_of(batch))
        if end == count:
            shelf.order.popleft()
            reading.batches.popleft()
            reading.size -= len(batch.body)
            shelf.size -= len(batch.body)
        reading.taken = 0 if end == count else end
        return _Portion(batch, reading.partition, first, end)

    def close(self) -> None:
        """Stop reading, and wait for the threads' end."""
        with self._shelf.lock:
            self._shelf.closed = True
            self._shelf.changed.notify_all()
        if self._scout.ident is None:
            return
        deadline = time.monotonic() + JOIN_S
        with self._shelf.lock:  # the scout makes no more of them
            threads = [self._scout, *self._scout.lanes.values()]
        for thread in threads:
            thread.disconnect()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _bytes_of(batch: Batch) -> int:
    """What a record of it takes, about."""
    return len(batch.body) // len(batch.columns.offsets) + 1


def _joined(topic: str, portions: list[_Portion]) -> RecordBatch:
    values, keys = [], []
    times, partitions, offsets = Numbers("q"), Numbers("q"), Numbers("q")
    for (body, columns), partition, rows in ((p.batch[1:], p.partition, slice(p.first, p.end)) for p in portions):
        values.append((body, columns.value_starts[rows], columns.value_sizes[rows]))
        keys.append((body, columns.key_starts[rows], columns.key_sizes[rows]))
        times += columns.times[rows]
        offsets += columns.offsets[rows]
        partitions += Numbers("q", [partition]) * (rows.stop - rows.start)
    indexes = Numbers("q", [0]) * len(offsets)
    return RecordBatch(topic, Texts.gathered(values), Texts.gathered(keys), times, partitions, offsets, indexes)
