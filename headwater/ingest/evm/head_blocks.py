"""Makes the steps of the zerolag streams: blocks at the head of the chain, and retractions of orphaned blocks.

A retraction repeats the original record, which is read back from the stream, because a node no longer has the logs of
an orphaned block, and the ABIs may have changed. The position holds the number of records of each recent block, so
that a missing record is noticed.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block, Header
from headwater.ingest.evm.ingest_state import STEP_RECORDS, IngestState, ReadWrittenRecords, batched_blocks, make_step
from headwater.ingest.evm.node_pool import LATEST
from headwater.ingest.evm.position import ZerolagBlock
from headwater.ingest.evm.records import NOT_REMOVED_SUFFIX, as_zerolag, retraction
from headwater.sinks.outputs import size_error

SUFFIX: Final = ".zerolag"
MAX_CLOCK_SKEW_MS: Final = 600_000
"""The most time by which Kafka's clock may be behind the clock of this machine."""
NOT_WRITTEN_MS: Final = 0
"""The `written_ms` of the block before the first written one, which has no records."""
HEADERS_PER_REQUEST: Final = 8
"""The number of headers in one request when the fork point is searched; most reorganisations are shorter."""


class _RecordRef(msgspec.Struct):
    """The members of a record that are needed to retract it."""

    block_hash: str
    block_number: int
    log_index: int


_RECORD_REF: Final = msgspec.json.Decoder(_RecordRef)


class HeadBlocks:
    """Follows the head of the chain. `entities` are those whose zerolag streams are written."""

    def __init__(
        self,
        state: IngestState,
        entities: Collection[str],
        read_back: ReadWrittenRecords,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._entities = frozenset(entities)
        self._read_back = read_back
        self._clock = clock

    def set_start(self) -> None:
        """At the very first start, set the current head as the block before the first one to write."""
        if not self._state.position.recent:
            latest = self._latest()
            self._remember([ZerolagBlock(int(latest.number, 16), latest.hash, 0, NOT_WRITTEN_MS)])

    def _latest(self) -> Header:
        latest = self._state.nodes.header(LATEST)
        if latest is None:
            raise NodeUnavailable("The node has no blocks yet.")
        return latest

    def steps(self) -> Iterator[Step]:
        """Yield steps with the changes at the head since the last call."""
        latest = self._latest()
        number = int(latest.number, 16)
        if self._is_reorganised(number, latest):
            yield from self._retract()
        while (first := self._last.number + 1) <= number:
            blocks = self._state.nodes.blocks(first, min(number, first + self._state.nodes.range_size - 1))
            if blocks[0].parent_hash == self._last.hash:
                yield from self._append(blocks)
                continue
            before = self._last
            yield from self._retract()
            if self._last == before:  # two nodes behind one URL are on different forks: try again at the next head
                return

    @property
    def _last(self) -> ZerolagBlock:
        return self._state.position.recent[-1]

    def _remember(self, recent: Sequence[ZerolagBlock]) -> None:
        kept = tuple(recent[-1 - self._state.options.reorg_depth :])
        self._state.position = msgspec.structs.replace(self._state.position, recent=kept)

    def _is_reorganised(self, number: int, latest: Header) -> bool:
        """Return whether the node's head differs from the written block of the same number."""
        return any(block.number == number and block.hash != latest.hash for block in self._state.position.recent)

    def _append(self, blocks: Sequence[Block]) -> Iterator[Step]:
        state = self._state
        for group, records in batched_blocks(blocks, self._records):
            counts = Counter(block_of(record) for record in records)
            written_ms = int(self._clock() * 1000)
            new = [ZerolagBlock(block.number, block.hash, counts[block.hash], written_ms) for block in group]
            self._remember([*state.position.recent, *new])
            yield make_step(state, group, records)

    def _records(self, block: Block) -> list[StreamRecord]:
        """Return the records of a block, without those that are too large for a topic, because records are counted."""
        records = self._state.converter.convert(block, Counter())
        return [
            StreamRecord(each.entity + SUFFIX, each.key, each.value)
            for each in map(as_zerolag, records)
            if each.entity in self._entities and size_error(each.value, each.key, []) is None
        ]

    def _retract(self) -> Iterator[Step]:
        """Yield steps that retract the blocks that are no longer on the chain, newest first."""
        fork = self._find_fork()
        if self._last.number > fork:
            self._state.counts["reorgs"] += 1
        while self._last.number > fork:
            kept, orphans = self._newest_orphans(fork)
            records = self._read_unretracted(orphans)
            self._remember(kept)
            yield make_step(self._state, [], [each._replace(value=retraction(each.value)) for each in records])

    def _newest_orphans(self, fork: int) -> tuple[list[ZerolagBlock], list[ZerolagBlock]]:
        kept, orphans = list(self._state.position.recent), list[ZerolagBlock]()
        while kept[-1].number > fork and (not orphans or sum(each.records for each in orphans) < STEP_RECORDS):
            orphans.append(kept.pop())
        return kept, orphans

    def _find_fork(self) -> int:
        """Return the number of the newest written block that is still on the chain, or of the one before the first.

        Raises IngestStopped when there is none.
        """
        header: Header | None = None
        recent = self._state.position.recent
        for end in range(len(recent), 0, -HEADERS_PER_REQUEST):
            some = recent[max(0, end - HEADERS_PER_REQUEST) : end]
            headers = self._state.nodes.headers([block.number for block in some])
            for block, header in zip(reversed(some), reversed(headers), strict=True):
                if header is not None and header.hash == block.hash:
                    return block.number
        if recent[0].written_ms == NOT_WRITTEN_MS and header is not None:
            self._remember([ZerolagBlock(recent[0].number, header.hash, 0, NOT_WRITTEN_MS), *recent[1:]])
            return recent[0].number
        if self._state.nodes.has_block(recent[0].number, recent[0].hash):
            raise NodeUnavailable(
                f"The node returned blocks of two different forks at block {recent[0].number}. The request is repeated."
            )
        raise IngestStopped(
            f"The chain {self._state.options.chain} was reorganised below block {recent[0].number}, deeper than the "
            f"{len(recent)} blocks that are kept: the records of older ones in the zerolag streams can't be retracted. "
            "Start an ingest under another --name with a larger --reorg-depth; it begins at the head."
        )

    def _read_unretracted(self, orphans: Sequence[ZerolagBlock]) -> list[StreamRecord]:
        """Return the records of these blocks in the zerolag streams that are not retracted yet, newest first."""
        wanted = {block.hash for block in orphans if block.records}
        if not wanted:
            return []
        since_ms = min(block.written_ms for block in orphans if block.records) - MAX_CLOCK_SKEW_MS
        found: dict[tuple[str, bytes, str], tuple[_RecordRef, StreamRecord]] = {}
        for record in self._read_back([entity + SUFFIX for entity in sorted(self._entities)], since_ms):
            place = _record_ref(record.value)
            if place is not None and place.block_hash in wanted:
                found[record.stream, record.key, place.block_hash] = place, record
        unretracted = [pair for pair in found.values() if pair[1].value.endswith(NOT_REMOVED_SUFFIX)]
        expected = sum(block.records for block in orphans)
        if len(unretracted) != expected:
            raise IngestStopped(
                f"Only {len(unretracted)} of {expected} records of orphaned blocks were found in the zerolag streams: "
                "the topics don't keep records long enough, or another program writes to them. Start an ingest under "
                "another --name."
            )
        unretracted.sort(key=lambda pair: (pair[0].block_number, pair[0].log_index), reverse=True)
        return [record for _, record in unretracted]


def block_of(record: StreamRecord) -> str:
    """Return the hash of a record's block."""
    return _RECORD_REF.decode(record.value).block_hash


def _record_ref(value: bytes) -> _RecordRef | None:
    try:
        return _RECORD_REF.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
