"""Makes the steps of the zerolag streams.

These streams have head blocks, and retractions of orphaned blocks. A retraction repeats the original record, which is
read back from the stream, because a node no longer has the logs of an orphaned block, and the ABIs may have changed.
The position holds the number of records of each recent block, so that a missing record is noticed.
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

ZEROLAG_SUFFIX: Final = ".zerolag"
MAX_CLOCK_SKEW_MS: Final = 600_000
"""The maximum time by which Kafka's clock may be behind the clock of this machine."""
NOT_WRITTEN_MS: Final = 0
"""The `written_ms` of the start block: the block before the first written block, without records."""
HEADERS_PER_REQUEST: Final = 8
"""The number of headers in one request when the fork point is searched; most reorganisations are shorter."""


class _RecordRef(msgspec.Struct):
    """The members of a record that are needed to retract it."""

    block_hash: str
    block_number: int
    log_index: int


_RECORD_REF: Final = msgspec.json.Decoder(_RecordRef)


class HeadBlocks:
    """Follows the head of the chain, and writes the zerolag streams of `entities`."""

    def __init__(
        self,
        state: IngestState,
        entities: Collection[str],
        read_written_records: ReadWrittenRecords,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._entities = frozenset(entities)
        self._read_written_records = read_written_records
        self._clock = clock

    def set_start(self) -> None:
        """At the very first start, set the current head as the start block.

        The blocks after the start block are written.
        """
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
            counts = Counter(block_hash_of(record) for record in records)
            written_ms = int(self._clock() * 1000)
            new = [ZerolagBlock(block.number, block.hash, counts[block.hash], written_ms) for block in group]
            self._remember([*state.position.recent, *new])
            yield make_step(state, group, records)

    def _records(self, block: Block) -> list[StreamRecord]:
        """Return the records of a block, except for records that are too large for a topic.

        The position does not count the excluded records, so a retraction does not expect them.
        """
        records = self._state.converter.convert(block, Counter())
        return [
            StreamRecord(record.entity + ZEROLAG_SUFFIX, record.key, record.value)
            for record in map(as_zerolag, records)
            if record.entity in self._entities and size_error(record.value, record.key, []) is None
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
            yield make_step(self._state, [], [record._replace(value=retraction(record.value)) for record in records])

    def _newest_orphans(self, fork: int) -> tuple[list[ZerolagBlock], list[ZerolagBlock]]:
        """Return the blocks to keep in the position, and the newest orphaned blocks.

        The orphaned blocks fit one step.
        """
        kept, orphans = list(self._state.position.recent), list[ZerolagBlock]()
        while kept[-1].number > fork and (not orphans or sum(block.records for block in orphans) < STEP_RECORDS):
            orphans.append(kept.pop())
        return kept, orphans

    def _find_fork(self) -> int:
        """Return the number of the newest kept block that is on the chain.

        If no kept block is on the chain, returns the number of the start block while that block is kept. Raises
        IngestStopped when it is no longer kept.
        """
        oldest_header: Header | None = None
        for block, header in self._newest_first():
            if header is not None and header.hash == block.hash:
                return block.number
            oldest_header = header
        oldest = self._state.position.recent[0]
        if oldest.written_ms == NOT_WRITTEN_MS and oldest_header is not None:
            self._replace_start_block(oldest_header)
            return oldest.number
        if self._state.nodes.switch_to_node_with(oldest.number, oldest.hash):
            raise NodeUnavailable(
                f"The node returned blocks of two different forks at block {oldest.number}. The request is repeated."
            )
        raise IngestStopped(
            f"The chain {self._state.options.chain} was reorganised below block {oldest.number}, deeper than the "
            f"{len(self._state.position.recent)} blocks that are kept: the records of older blocks in the zerolag "
            "streams can't be retracted. "
            "Start an ingest under another --name with a larger --reorg-depth; it begins at the head."
        )

    def _newest_first(self) -> Iterator[tuple[ZerolagBlock, Header | None]]:
        """Yield each kept block, the newest first, and the node's header of its number."""
        recent = self._state.position.recent
        for end in range(len(recent), 0, -HEADERS_PER_REQUEST):
            blocks = recent[max(0, end - HEADERS_PER_REQUEST) : end]
            headers = self._state.nodes.headers([block.number for block in blocks])
            yield from zip(reversed(blocks), reversed(headers), strict=True)

    def _replace_start_block(self, header: Header) -> None:
        """Replace the start block, which was orphaned.

        The new start block is the block of the same number that is on the chain.
        """
        start, *written = self._state.position.recent
        self._remember([ZerolagBlock(start.number, header.hash, 0, NOT_WRITTEN_MS), *written])

    def _read_unretracted(self, orphans: Sequence[ZerolagBlock]) -> list[StreamRecord]:
        """Return the zerolag records of these blocks that are not retracted, newest first."""
        orphan_hashes = {block.hash for block in orphans if block.records}
        if not orphan_hashes:
            return []
        since_ms = min(block.written_ms for block in orphans if block.records) - MAX_CLOCK_SKEW_MS
        newest: dict[tuple[str, bytes, str], tuple[_RecordRef, StreamRecord]] = {}
        for record in self._read_written_records(
            [entity + ZEROLAG_SUFFIX for entity in sorted(self._entities)], since_ms
        ):
            ref = _record_ref(record.value)
            if ref is not None and ref.block_hash in orphan_hashes:
                newest[record.stream, record.key, ref.block_hash] = ref, record
        unretracted = [pair for pair in newest.values() if pair[1].value.endswith(NOT_REMOVED_SUFFIX)]
        expected = sum(block.records for block in orphans)
        if len(unretracted) != expected:
            raise IngestStopped(
                f"The zerolag streams have {len(unretracted)} records of orphaned blocks, but the ingest wrote "
                f"{expected}: the topics don't keep records long enough, or another program writes to them. Start an "
                "ingest under another --name."
            )
        unretracted.sort(key=lambda pair: (pair[0].block_number, pair[0].log_index), reverse=True)
        return [record for _, record in unretracted]


def block_hash_of(record: StreamRecord) -> str:
    """Return the hash of a record's block."""
    return _RECORD_REF.decode(record.value).block_hash


def _record_ref(value: bytes) -> _RecordRef | None:
    try:
        return _RECORD_REF.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
