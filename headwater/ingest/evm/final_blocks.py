"""Makes the steps of the final streams, which have the final blocks in order."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block
from headwater.ingest.evm.ingest_state import IngestState, batched_blocks, make_step
from headwater.ingest.evm.node_pool import LATEST
from headwater.ingest.evm.position import UNKNOWN_HASH, BlockRef


class FinalBlocks:
    """Fetches final blocks, and converts them to steps. The threads of `pool` prefetch blocks."""

    def __init__(self, state: IngestState, pool: ThreadPoolExecutor) -> None:
        self._state = state
        self._pool = pool

    def set_start(self) -> None:
        """At the very first start, set the first block: `from_block`, or the newest final block."""
        if self._state.position.final is None:
            first = self._state.options.from_block
            number = max(0, self._newest_final()) if first is None else first
            before_first = BlockRef(number - 1, UNKNOWN_HASH)
            self._state.position = msgspec.structs.replace(self._state.position, final=before_first)

    def steps(self) -> Iterator[Step | None]:
        """Yield steps without end, or up to the end of the range.

        Yields None while there is no further final block.
        """
        to_block = self._state.options.to_block
        while to_block is None or self._next_number() <= to_block:
            end = self._last_available()
            if end < self._next_number():
                yield None
                continue
            for blocks in self._fetched(self._next_number(), end):
                self._check_parent(blocks[0])
                yield from self._steps(blocks)

    @property
    def _last_block(self) -> BlockRef:
        last = self._state.position.final
        assert last is not None, "set_start comes first"
        return last

    def _next_number(self) -> int:
        return self._last_block.number + 1

    def _last_available(self) -> int:
        newest, to_block = self._newest_final(), self._state.options.to_block
        return newest if to_block is None else min(newest, to_block)

    def _newest_final(self) -> int:
        finality = self._state.options.finality
        tag = finality if isinstance(finality, str) else LATEST
        header = self._state.nodes.header(tag)
        if header is None:
            raise NodeUnavailable(
                f"The node has no {tag} block. If this persists, set a number of confirmations (--confirmations, or "
                "`finality` in the file of --ingests)."
            )
        return int(header.number, 16) - (finality if isinstance(finality, int) else 0)

    def _fetched(self, first: int, last: int) -> Iterator[list[Block]]:
        """Yield blocks in order, with several requests in flight."""
        in_flight: deque[Future[list[Block]]] = deque()
        nodes = self._state.nodes
        try:
            while first <= last or in_flight:
                while first <= last and len(in_flight) < self._state.options.parallel:
                    end = min(last, first + nodes.range_size - 1)
                    in_flight.append(self._pool.submit(nodes.blocks, first, end))
                    first = end + 1
                yield in_flight.popleft().result()
        finally:
            for future in in_flight:
                future.cancel()

    def _check_parent(self, block: Block) -> None:
        """Verify that a block is the child of the last stored block.

        Raises IngestStopped when the last stored block was orphaned.
        """
        last = self._last_block
        if last.hash in (UNKNOWN_HASH, block.parent_hash):
            return
        if self._state.nodes.switch_to_node_with(last.number, last.hash):
            raise NodeUnavailable(
                f"The node returned blocks of two different forks at block {block.number}. The request is repeated."
            )
        raise IngestStopped(
            f"The chain {self._state.options.chain} has another block {last.number} than the block whose records are "
            "in its streams, so that block was not final. Find the last stored block that is still on the chain, and "
            "start an ingest with another --name and --from-block after it. Use more --confirmations, or the node's "
            "finalized tag."
        )

    def _steps(self, blocks: Sequence[Block]) -> Iterator[Step]:
        state = self._state
        for group, records in batched_blocks(blocks, self._records):
            last = group[-1]
            state.position = msgspec.structs.replace(state.position, final=BlockRef(last.number, last.hash))
            state.counts["blocks"] += len(group)
            yield make_step(state, group, records)

    def _records(self, block: Block) -> list[StreamRecord]:
        return [StreamRecord(*record) for record in self._state.converter.convert(block, self._state.counts)]
