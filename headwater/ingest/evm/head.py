"""Writes the zerolag streams: blocks as soon as the node has them, and retractions of orphaned blocks.

A retraction repeats the original record, which is read back from the stream: a node no longer has the logs of an
orphaned block, and the ABIs may have changed since. The position has the number of records of each recent block, so
that a missing one is noticed.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block, Header
from headwater.ingest.evm.pool import LATEST
from headwater.ingest.evm.position import Recent
from headwater.ingest.evm.records import NOT_REMOVED_SUFFIX, as_zerolag, retraction
from headwater.ingest.evm.steps import STEP_RECORDS, ReadBack, Work, grouped, step_of
from headwater.sinks.base import oversize

SUFFIX: Final = ".zerolag"
CLOCKS_MS: Final = 600_000
"""How far Kafka's clock may be behind this machine's."""
BEFORE: Final = 0
"""Time of the block before the first one that was written."""
LOOK_AT_ONCE: Final = 8
"""Headers in one look for the block where two chains part; nearly all reorganisations are shorter."""


class _Place(msgspec.Struct):
    """What is read of a record that comes back."""

    block_hash: str
    block_number: int
    log_index: int


_PLACE: Final = msgspec.json.Decoder(_Place)


class HeadBlocks:
    """Follows the head of the chain. entities: the entities whose zerolag streams are written."""

    def __init__(
        self,
        work: Work,
        entities: Collection[str],
        read_back: ReadBack,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._work = work
        self._entities = frozenset(entities)
        self._read_back = read_back
        self._clock = clock

    def begin(self) -> None:
        """Settle at the very first start that the present head is the block before the first one."""
        if not self._work.position.recent:
            latest = self._latest()
            self._remember([Recent(int(latest.number, 16), latest.hash, 0, BEFORE)])

    def _latest(self) -> Header:
        latest = self._work.nodes.header(LATEST)
        if latest is None:
            raise NodeUnavailable("The node has no blocks yet.")
        return latest

    def steps(self) -> Iterator[Step]:
        """What changed at the head since the last call."""
        latest = self._latest()
        number = int(latest.number, 16)
        if self._is_replaced(number, latest):
            yield from self._retract()
        while (first := self._last.number + 1) <= number:
            blocks = self._work.nodes.blocks(first, min(number, first + self._work.nodes.span - 1))
            if blocks[0].parent_hash == self._last.hash:
                yield from self._append(blocks)
                continue
            before = self._last
            yield from self._retract()
            if self._last == before:  # two nodes behind one address disagree: ask again at the next look
                return

    @property
    def _last(self) -> Recent:
        return self._work.position.recent[-1]

    def _remember(self, recent: Sequence[Recent]) -> None:
        kept = tuple(recent[-1 - self._work.options.reorg_depth :])
        self._work.position = msgspec.structs.replace(self._work.position, recent=kept)

    def _is_replaced(self, number: int, latest: Header) -> bool:
        """Whether the head is another block than the one of its number here. A head that is behind tells nothing."""
        return any(block.number == number and block.hash != latest.hash for block in self._work.position.recent)

    def _append(self, blocks: Sequence[Block]) -> Iterator[Step]:
        work = self._work
        for group, records in grouped(blocks, self._records):
            counts = Counter(block_of(record) for record in records)
            written_ms = int(self._clock() * 1000)
            new = [Recent(block.number, block.hash, counts[block.hash], written_ms) for block in group]
            self._remember([*work.position.recent, *new])
            yield step_of(work, group, records)

    def _records(self, block: Block) -> list[StreamRecord]:
        """The records of a block, without those that are too large for a topic, so that their number is right."""
        made = self._work.converter.convert(block, Counter())
        return [
            StreamRecord(each.entity + SUFFIX, each.key, each.value)
            for each in map(as_zerolag, made)
            if each.entity in self._entities and oversize(each.value, each.key, []) is None
        ]

    def _retract(self) -> Iterator[Step]:
        """Take back, newest first, the blocks that are no longer on the chain."""
        fork = self._fork()
        if self._last.number > fork:
            self._work.counts["reorgs"] += 1
        while self._last.number > fork:
            kept, orphans = self._newest_orphans(fork)
            records = self._written(orphans)
            self._remember(kept)
            yield step_of(self._work, [], [each._replace(value=retraction(each.value)) for each in records])

    def _newest_orphans(self, fork: int) -> tuple[list[Recent], list[Recent]]:
        kept, orphans = list(self._work.position.recent), list[Recent]()
        while kept[-1].number > fork and (not orphans or sum(each.records for each in orphans) < STEP_RECORDS):
            orphans.append(kept.pop())
        return kept, orphans

    def _fork(self) -> int:
        """The number of the newest recent block that is still on the chain, or of the one before all written ones.

        Raises IngestStopped when there is none.
        """
        header: Header | None = None
        recent = self._work.position.recent
        for end in range(len(recent), 0, -LOOK_AT_ONCE):
            some = recent[max(0, end - LOOK_AT_ONCE) : end]
            headers = self._work.nodes.headers([block.number for block in some])
            for block, header in zip(reversed(some), reversed(headers), strict=True):
                if header is not None and header.hash == block.hash:
                    return block.number
        if recent[0].written_ms == BEFORE and header is not None:
            self._remember([Recent(recent[0].number, header.hash, 0, BEFORE), *recent[1:]])
            return recent[0].number
        if self._work.nodes.has_block(recent[0].number, recent[0].hash):
            raise NodeUnavailable(f"The node gives two chains of blocks at {recent[0].number} at once.")
        raise IngestStopped(
            f"The chain {self._work.options.chain} was reorganised below block {recent[0].number}, deeper than the "
            f"{len(recent)} blocks that are kept: the records of older ones in the zerolag streams can't be retracted. "
            "Start the ingest under another --name with a larger --reorg-depth; it begins at the head."
        )

    def _written(self, orphans: Sequence[Recent]) -> list[StreamRecord]:
        """The records of these blocks in the zerolag streams that are not retracted yet, newest first."""
        wanted = {block.hash for block in orphans if block.records}
        if not wanted:
            return []
        since_ms = min(block.written_ms for block in orphans if block.records) - CLOCKS_MS
        found: dict[tuple[str, bytes, str], tuple[_Place, StreamRecord]] = {}
        for record in self._read_back([entity + SUFFIX for entity in sorted(self._entities)], since_ms):
            place = _place(record.value)
            if place is not None and place.block_hash in wanted:
                found[record.stream, record.key, place.block_hash] = place, record
        standing = [pair for pair in found.values() if pair[1].value.endswith(NOT_REMOVED_SUFFIX)]
        expected = sum(block.records for block in orphans)
        if len(standing) != expected:
            raise IngestStopped(
                f"Of {expected} records of orphaned blocks {len(standing)} are in the zerolag streams: their topics "
                "do not keep records long enough, or someone else writes there. Start the ingest under another --name."
            )
        standing.sort(key=lambda pair: (pair[0].block_number, pair[0].log_index), reverse=True)
        return [record for _, record in standing]


def block_of(record: StreamRecord) -> str:
    """The hash of a record's block."""
    return _PLACE.decode(record.value).block_hash


def _place(value: bytes) -> _Place | None:
    try:
        return _PLACE.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
