"""A node's blocks as steps, in the order of their slots.

Nodes behind one address are not all equally far, and one that is behind leaves its newest blocks out of getBlocks
without a word. So no slot counts as skipped because a node says so, but because the next block names the one before: a
block that does not name the last one as its parent is not taken, and the slots between are asked for again.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Final, NamedTuple

import msgspec

from headwater.errors import NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.closing import Closing
from headwater.ingest.options import IngestOptions
from headwater.ingest.position import read_position
from headwater.ingest.solana.blocks import Block
from headwater.ingest.solana.options import SolanaOptions
from headwater.ingest.solana.records import ENTITY, records
from headwater.ingest.solana.rpc import MOST_SLOTS, Rpc

SPAN: Final = 1_000
"""Slots that are asked for at once, at first; more when all of them are skipped."""
STEP_BYTES: Final = 8 << 20
"""Records of blocks that are there already are stored together up to this size."""


class Position(msgspec.Struct):
    """next_slot: the first that is not stored. block: the slot of the last block; None when there was none yet."""

    next_slot: int
    block: int | None = None


class _Fetched(NamedTuple):
    """is_next_there: the block behind this one is here too."""

    slot: int
    block: Block
    is_next_there: bool


class SolanaFeed:
    """Implements ingest.base.Feed."""

    streams: Sequence[str] = (ENTITY,)

    def __init__(self, options: SolanaOptions, stop: Event) -> None:
        """stop: ends its waits."""
        self._options = options
        self._stop = stop

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Ends behind `to_slot`. A first start begins at `from_slot`, or at the newest slot, and stores that first."""
        with self._opened() as (rpc, pool, closing):
            walk = _Walk(self._options, rpc, pool)
            walk.begin(position)
            if position is None:
                yield walk.step([], 0)
            while not walk.ended():
                before = walk.position.next_slot
                yield from walk.steps()
                if walk.position.next_slot == before:
                    closing.wait(self._options.poll_s)
                    yield None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Rpc, ThreadPoolExecutor, Closing]]:
        """A client of its own for each run."""
        options, closing = self._options, Closing(self._stop)
        rpc = Rpc(options.rpc.get_secret_value(), options.commitment, options.encoding, options.rate, closing)
        pool = ThreadPoolExecutor(options.parallel, "getBlock")
        try:
            yield rpc, pool, closing
        finally:
            closing.set()
            pool.shutdown(cancel_futures=True)
            rpc.close()


class _Walk:
    """From block to block."""

    def __init__(self, options: SolanaOptions, rpc: Rpc, pool: ThreadPoolExecutor) -> None:
        self._options = options
        self._rpc = rpc
        self._pool = pool
        self._span = SPAN
        self._is_proven = False
        self.position = Position(0)

    def begin(self, position: bytes | None) -> None:
        """Go on behind a stored position."""
        if position is not None:
            self.position = read_position(position, Position, self._options.name)
            return
        first = self._options.from_slot
        self.position = Position(self._rpc.newest() if first is None else first)

    def step(self, made: Sequence[StreamRecord], time_ms: int) -> Step:
        """These records, and the position that is reached."""
        return Step(made, msgspec.json.encode(self.position), time_ms)

    def ended(self) -> bool:
        """Whether all slots up to `to_slot` are stored, and none of their blocks was left out."""
        last = self._options.to_slot
        return last is not None and (self.position.next_slot > last or self._is_proven)

    def steps(self) -> Iterator[Step]:
        """What is there now, up to the newest slot."""
        newest = self._rpc.newest()
        wanted = newest if self._options.to_slot is None else min(newest, self._options.to_slot)
        first = self.position.next_slot
        last = min(wanted, first + self._span - 1)
        if last < first:
            return
        slots = [slot for slot in self._rpc.slots(first, last) if first <= slot <= last]
        yield from self._stored(slots)
        if slots:
            self._span = SPAN
        elif last < wanted:
            self._span = min(MOST_SLOTS, self._span * 2)
        elif wanted == self._options.to_slot:
            self._prove()

    def _stored(self, slots: Sequence[int]) -> Iterator[Step]:
        """Steps of the blocks of these slots."""
        made: list[StreamRecord] = []
        size, time_ms, is_stored = 0, 0, True
        for slot, block, is_next_there in self._fetched(slots):
            fault = self._fault(slot, block.parent_slot)
            if fault is None:
                new = self._records(slot, block)
                made += new
                size += sum(len(record.value) for record in new)
                time_ms = max(time_ms, (block.block_time or 0) * 1000)
                self.position, is_stored = Position(slot + 1, slot), False
            if not is_stored and (fault or size >= STEP_BYTES or not is_next_there):
                yield self.step(made, time_ms)
                made, size, is_stored = [], 0, True
            if fault is not None:
                raise NodeUnavailable(fault)

    def _fetched(self, slots: Sequence[int]) -> Iterator[_Fetched]:
        """Blocks in order, several requests in flight."""
        waiting: deque[tuple[int, Future[Block]]] = deque()
        left = deque(slots)
        while left or waiting:
            while left and len(waiting) < self._options.parallel:
                slot = left.popleft()
                waiting.append((slot, self._pool.submit(self._rpc.block, slot)))
            slot, fetched = waiting.popleft()
            yield _Fetched(slot, fetched.result(), bool(waiting) and _has_result(waiting[0][1]))

    def _fault(self, slot: int, parent: int) -> str | None:
        """Why the block of this slot can't follow on what is stored."""
        block = self.position.block
        is_genesis = slot == parent == 0
        if parent == block or (block is None and (is_genesis or parent < self.position.next_slot)):
            return None
        if parent == slot:
            return (
                f"The node's block of slot {slot} names its own slot as that of its parent (parentSlot), so nobody can "
                "tell whether a block is missing before it. Mend the node, or use another one."
            )
        if block is not None and parent < block:
            return (
                f"The node's block of slot {slot} follows on slot {parent}: slot {block}, whose records are stored, is "
                "not on its chain. If that stays so, start an ingest of another --name with --from-slot."
            )
        return f"The node left out the block of slot {parent}, which that of slot {slot} follows on."

    def _records(self, slot: int, block: Block) -> list[StreamRecord]:
        try:
            return list(records(block, slot, self._options.chain))
        except (ValueError, IndexError) as error:
            raise NodeUnavailable(f"The node's block of slot {slot} can't be read: {error}.") from error

    def _prove(self) -> None:
        """The end of a range: the block behind it shows that the range's last one is not missing."""
        assert self._options.to_slot is not None
        behind = self._rpc.slot_from(self._options.to_slot + 1)
        if behind is None:
            return
        fault = self._fault(behind, self._rpc.parent_of(behind))
        if fault is not None:
            raise NodeUnavailable(fault)
        self._is_proven = True


def _has_result(block: "Future[Block]") -> bool:
    return block.done() and not block.cancelled() and block.exception() is None


def open_solana(options: IngestOptions, _: object, stop: Event) -> SolanaFeed:
    """The feed of an ingest of this kind."""
    assert isinstance(options, SolanaOptions)
    return SolanaFeed(options, stop)
