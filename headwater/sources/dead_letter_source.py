"""The source that reads the dead letters of a redrive from their topic.

In this module, dead letters are called letters.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import structlog

from headwater.errors import RedisUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.dead_letter import TIMESTAMP_HEADER, LetterHeaders, LetterId
from headwater.model.record import Int64Column, RecordBatch, RowIndexes, position_ids
from headwater.model.redrive import LetterRange, RedriveSpec
from headwater.native.librdkafka import FetchedColumns, PartitionOffset
from headwater.sources.base import Positions
from headwater.sources.dead_letter_selector import DeadLetterSelector, source_id
from headwater.sources.kafka import KafkaSource
from headwater.stores.protocols.redrives import RedriveOutcomeStore

log = structlog.get_logger(__name__)

MAX_RECORDS: Final = 500
"""How many letters a batch has at most, so that commits, rebalances and the throttle never wait long for a batch."""
THROTTLED_RECORDS: Final = 5
THROTTLED_PAUSE_S: Final = 0.05
"""A throttled redrive reads batches of at most THROTTLED_RECORDS letters, each after a pause of this length."""
FINISH_CHECK_INTERVAL_S: Final = 0.5

_NOTHING: Final = LetterRange(0, 0)


class DeadLetterSource(KafkaSource):
    """Implements sources.base.Source for a redrive.

    It returns the selected letters with the ids of their source records. A letter gets the timestamp of its source
    record, so that a script sees the same time again. Letters after the ranges of the selection are not read. When all
    letters are committed, the source stores that the redrive is finished, and returns nothing more. It repeats the
    write until the worker is stopped, because the store may lose its last writes.

    Args:
        access: The Kafka cluster.
        topic: The dead-letter topic.
        group: The consumer group of the redrive.
        instance_id: The `group.instance.id`.
        deployment_id: The deployment.
        redrive: The redrive.
        store: The outcomes of letters.
    """

    needs_headers = True

    def __init__(
        self,
        access: KafkaAccess,
        topic: str,
        group: str,
        *,
        instance_id: str,
        deployment_id: str,
        redrive: RedriveSpec,
        store: RedriveOutcomeStore,
    ) -> None:
        super().__init__(access, topic, group, instance_id=instance_id)
        self._deployment_id = deployment_id
        self._redrive = redrive
        self._store = store
        self._ranges = {
            partition: each for partition, each in redrive.selection.ranges.items() if each.start < each.end
        }
        """The ranges of the selection that are not empty, by partition."""
        self._selector = DeadLetterSelector(deployment_id, redrive, store)
        self.repeats = self._selector.repeats
        self._source_ids: dict[LetterId, bytes] = {}
        """By letter that is not committed yet: the id of its source record."""
        self._has_committed_all = False
        self._next_finish_check = 0.0
        self.is_throttled = False
        """Whether to read slowly, because the pipeline lags. RedriveDelivery sets it."""

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        if not self.is_throttled:
            return super().poll(min(max_records, MAX_RECORDS), timeout_s)
        time.sleep(THROTTLED_PAUSE_S)
        return super().poll(min(max_records, THROTTLED_RECORDS), timeout_s)

    # Positions

    def _start_positions(self, partitions: list[int]) -> list[PartitionOffset]:
        """Skip the letters before the ranges."""
        return [
            start
            if start.offset >= self._range(start.partition).start
            else PartitionOffset(start.partition, self._range(start.partition).start)
            for start in super()._start_positions(partitions)
        ]

    def _range(self, partition: int) -> LetterRange:
        return self._ranges.get(partition, _NOTHING)

    def _may_read(self, partition: int) -> bool:
        return super()._may_read(partition) and not self._is_at_end(partition)

    def _is_at_end(self, partition: int) -> bool:
        return self._positions.get(partition, 0) >= self._range(partition).end

    # Letters

    def _to_batch(self, fetched: FetchedColumns) -> RecordBatch:
        headers = dict(_headers_by_letter(fetched))
        batch = super()._to_batch(fetched)
        read = batch.last_offsets().keys() | batch.end_positions.keys()
        ends = {partition: self._positions[partition] for partition in read}
        letters = [LetterId(*position) for position in zip(batch.partitions, batch.offsets, strict=True)]
        selected = self._selector.select(letters, headers, batch.values)
        for row in selected:
            self._source_ids[letters[row]] = source_id(headers[letters[row]])
        kept = batch.take(RowIndexes("i", selected))
        times = [
            headers[letters[row]].integer(TIMESTAMP_HEADER) or timestamp
            for row, timestamp in zip(selected, kept.timestamps, strict=True)
        ]
        self._update_client([partition for partition in ends if self._is_at_end(partition)])
        # The positions after all letters that were read, so that letters that are not selected are committed, too.
        return replace(kept, timestamps=Int64Column("q", times), end_positions=ends)

    def source_ids(self, batch: RecordBatch) -> list[bytes]:
        letters = map(LetterId, batch.partitions, batch.offsets)
        return [self._source_ids.get(letter) or own for letter, own in zip(letters, position_ids(batch), strict=True)]

    def forget(self, positions: Positions) -> None:
        """Forget the letters before these positions, whose commit has begun.

        If the commit fails, the source repeats the commit, or the letters are read again.
        """
        self._selector.forget(positions)
        self._source_ids = {
            letter: source_id
            for letter, source_id in self._source_ids.items()
            if letter.offset >= positions.get(letter.partition, 0)
        }

    # The end

    def _do_housekeeping(self) -> None:
        super()._do_housekeeping()
        now = time.monotonic()
        if now < self._next_finish_check or not self._has_read_all():
            return
        self._next_finish_check = now + FINISH_CHECK_INTERVAL_S
        if not self._has_committed_all:
            committed = self.committed()
            self._has_committed_all = all(
                committed.get(partition, 0) >= each.end for partition, each in self._ranges.items()
            )
        if self._has_committed_all:
            try:
                self._store.finish(self._deployment_id, self._redrive.number)
            except RedisUnavailable as error:
                log.warning("the end of a redrive is not stored yet", reason=error.detail)

    def _has_read_all(self) -> bool:
        return self._assigned >= self._ranges.keys() and all(map(self._is_at_end, self._ranges))


def _headers_by_letter(fetched: FetchedColumns) -> Iterator[tuple[LetterId, LetterHeaders]]:
    """Return the headers of the fetched letters."""
    if fetched.headers is None:
        return
    counts, names, values = fetched.headers
    pairs: Iterable[tuple[bytes | None, bytes | None]] = zip(names, values, strict=True)
    pairs = iter(pairs)
    for partition, offset, count in zip(fetched.partitions, fetched.offsets, counts, strict=True):
        headers = {(name or b"").decode(errors="replace"): value for name, value in (next(pairs) for _ in range(count))}
        yield LetterId(partition, offset), LetterHeaders(headers)
