"""Writes the normal streams: final blocks in their order."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block
from headwater.ingest.evm.pool import LATEST
from headwater.ingest.evm.position import UNKNOWN, Mark
from headwater.ingest.evm.steps import Work, grouped, step_of


class FinalBlocks:
    """Fetches final blocks and makes steps of them. pool: threads that fetch ahead."""

    def __init__(self, work: Work, pool: ThreadPoolExecutor) -> None:
        self._work = work
        self._pool = pool

    def begin(self) -> None:
        """Settle the first block at the very first start: what the options say, or the newest final one."""
        if self._work.position.final is None:
            first = self._work.options.from_block
            mark = Mark((max(0, self._newest()) if first is None else first) - 1, UNKNOWN)
            self._work.position = msgspec.structs.replace(self._work.position, final=mark)

    def steps(self) -> Iterator[Step | None]:
        """Steps for ever, or to the end of the range; None when there is no further final block now."""
        last_wanted = self._work.options.to_block
        while last_wanted is None or self._next() <= last_wanted:
            end = self._end()
            if end < self._next():
                yield None
                continue
            for blocks in self._fetched(self._next(), end):
                self._check(blocks[0])
                yield from self._steps(blocks)

    @property
    def _mark(self) -> Mark:
        mark = self._work.position.final
        assert mark is not None, "begin comes first"
        return mark

    def _next(self) -> int:
        return self._mark.number + 1

    def _end(self) -> int:
        newest, wanted = self._newest(), self._work.options.to_block
        return newest if wanted is None else min(newest, wanted)

    def _newest(self) -> int:
        finality = self._work.options.finality
        tag = finality if isinstance(finality, str) else LATEST
        header = self._work.nodes.header(tag)
        if header is None:
            raise NodeUnavailable(
                f"The node has no {tag} block. If that stays so, name a number of confirmations (--confirmations)."
            )
        return int(header.number, 16) - (finality if isinstance(finality, int) else 0)

    def _fetched(self, first: int, last: int) -> Iterator[list[Block]]:
        """Blocks in order, several requests in flight."""
        waiting: deque[Future[list[Block]]] = deque()
        nodes = self._work.nodes
        try:
            while first <= last or waiting:
                while first <= last and len(waiting) < self._work.options.parallel:
                    end = min(last, first + nodes.span - 1)
                    waiting.append(self._pool.submit(nodes.blocks, first, end))
                    first = end + 1
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _check(self, block: Block) -> None:
        """A block must follow on the one before. Raises IngestStopped when that one was orphaned after all."""
        mark = self._mark
        if mark.hash in (UNKNOWN, block.parent_hash):
            return
        if self._work.nodes.has_block(mark.number, mark.hash):
            raise NodeUnavailable(f"The node gives two chains of blocks at {block.number} at once.")
        raise IngestStopped(
            f"The chain {self._work.options.chain} has another block {mark.number} than the one whose records are in "
            "its streams: it was not final. Find the last block that is still on the chain, and start an ingest of "
            "another --name --from-block behind it, with more --confirmations or the node's finalized blocks."
        )

    def _steps(self, blocks: Sequence[Block]) -> Iterator[Step]:
        work = self._work
        for group, records in grouped(blocks, self._records):
            last = group[-1]
            work.position = msgspec.structs.replace(work.position, final=Mark(last.number, last.hash))
            work.counts["blocks"] += len(group)
            yield step_of(work, group, records)

    def _records(self, block: Block) -> list[StreamRecord]:
        return [StreamRecord(*made) for made in self._work.converter.convert(block, self._work.counts)]
