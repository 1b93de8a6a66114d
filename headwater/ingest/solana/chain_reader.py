"""Reads the blocks of a Solana node in the order of their slots, and yields them as steps.

Nodes behind a load balancer may be at different heights, and a node that lags omits the newest blocks from getBlocks
without an error. So a slot counts as skipped only when the next block's parent proves it. A block whose parent is not
the last stored block is not accepted, and the slots in between are requested again.
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
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.position import read_position
from headwater.ingest.solana.blocks import Block
from headwater.ingest.solana.options import SolanaOptions
from headwater.ingest.solana.records import ENTITY, records
from headwater.ingest.solana.rpc import MAX_SLOTS_PER_CALL, Rpc

SLOTS_PER_REQUEST: Final = 1_000
"""The number of slots in one request; it is doubled while all slots are skipped."""
STEP_BYTES: Final = 8 << 20
"""Fetched blocks go into one step until its records have this size."""


class Position(msgspec.Struct):
    """The position of a Solana ingest.

    Attributes:
        next_slot: The first slot that is not stored.
        block: The slot of the last stored block; None before the first.
    """

    next_slot: int
    block: int | None = None


class _Fetched(NamedTuple):
    """A fetched block.

    Attributes:
        slot: The slot of the block.
        block: The block.
        is_next_fetched: Whether the next block is fetched already, so that both can go into one step.
    """

    slot: int
    block: Block
    is_next_fetched: bool


class SolanaReader:
    """Implements ingest.base.ChainReader for a Solana node."""

    streams: Sequence[str] = (ENTITY,)

    def __init__(self, options: SolanaOptions, stop: Event) -> None:
        """Create the reader. The event `stop` cancels its waits."""
        self._options = options
        self._stop = stop

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        """Yield the steps; return after `to_slot`.

        A first start begins at `from_slot`, or at the newest slot, and stores that position first.
        """
        with self._opened() as (rpc, pool, cancel_token):
            walk = _BlockWalk(self._options, rpc, pool)
            walk.begin(position)
            if position is None:
                yield walk.step([], 0)
            while not walk.ended():
                before = walk.position.next_slot
                yield from walk.steps()
                if walk.position.next_slot == before:
                    cancel_token.wait(self._options.poll_s)
                    yield None

    @contextmanager
    def _opened(self) -> Iterator[tuple[Rpc, ThreadPoolExecutor, CancelToken]]:
        """Open a client and a thread pool for one run."""
        options, cancel_token = self._options, CancelToken(self._stop)
        rpc = Rpc(
            url=options.rpc.get_secret_value(),
            commitment=options.commitment,
            encoding=options.encoding,
            rate=options.rate,
            cancel_token=cancel_token,
        )
        pool = ThreadPoolExecutor(options.parallel, "getBlock")
        try:
            yield rpc, pool, cancel_token
        finally:
            cancel_token.set()
            pool.shutdown(cancel_futures=True)
            rpc.close()


class _BlockWalk:
    """Fetches blocks after the position, and advances the position."""

    def __init__(self, options: SolanaOptions, rpc: Rpc, pool: ThreadPoolExecutor) -> None:
        self._options = options
        self._rpc = rpc
        self._pool = pool
        self._span = SLOTS_PER_REQUEST
        self._range_is_complete = False
        self.position = Position(0)

    def begin(self, position: bytes | None) -> None:
        """Continue after a stored position; None at the first start."""
        if position is not None:
            self.position = read_position(position, Position, self._options.name)
            return
        first = self._options.from_slot
        self.position = Position(self._rpc.newest() if first is None else first)

    def step(self, records: Sequence[StreamRecord], time_ms: int) -> Step:
        """Return a step with these records and the current position."""
        return Step(records, msgspec.json.encode(self.position), time_ms)

    def ended(self) -> bool:
        """Return whether all slots up to `to_slot` are stored, and none of their blocks is missing."""
        last = self._options.to_slot
        return last is not None and (self.position.next_slot > last or self._range_is_complete)

    def steps(self) -> Iterator[Step]:
        """Yield steps with the blocks that exist now, up to the newest slot."""
        newest = self._rpc.newest()
        wanted = newest if self._options.to_slot is None else min(newest, self._options.to_slot)
        first = self.position.next_slot
        last = min(wanted, first + self._span - 1)
        if last < first:
            return
        slots = [slot for slot in self._rpc.slots(first, last) if first <= slot <= last]
        yield from self._steps_of(slots)
        if slots:
            self._span = SLOTS_PER_REQUEST
        elif last < wanted:
            self._span = min(MAX_SLOTS_PER_CALL, self._span * 2)
        elif wanted == self._options.to_slot:
            self._verify_end_of_range()

    def _steps_of(self, slots: Sequence[int]) -> Iterator[Step]:
        """Yield steps with the blocks of these slots."""
        records: list[StreamRecord] = []
        size, time_ms, is_stored = 0, 0, True
        for slot, block, is_next_fetched in self._fetched(slots):
            fault = self._fault(slot, block.parent_slot)
            if fault is None:
                new = self._records(slot, block)
                records += new
                size += sum(len(record.value) for record in new)
                time_ms = max(time_ms, (block.block_time or 0) * 1000)
                self.position, is_stored = Position(slot + 1, slot), False
            if not is_stored and (fault or size >= STEP_BYTES or not is_next_fetched):
                yield self.step(records, time_ms)
                records, size, is_stored = [], 0, True
            if fault is not None:
                raise NodeUnavailable(fault)

    def _fetched(self, slots: Sequence[int]) -> Iterator[_Fetched]:
        """Yield blocks in order, with several requests in flight."""
        waiting: deque[tuple[int, Future[Block]]] = deque()
        left = deque(slots)
        while left or waiting:
            while left and len(waiting) < self._options.parallel:
                slot = left.popleft()
                waiting.append((slot, self._pool.submit(self._rpc.block, slot)))
            slot, fetched = waiting.popleft()
            yield _Fetched(slot, fetched.result(), bool(waiting) and _has_result(waiting[0][1]))

    def _fault(self, slot: int, parent: int) -> str | None:
        """Return why the block of this slot can't follow the last stored block; None if it can."""
        block = self.position.block
        is_genesis = slot == parent == 0
        if parent == block or (block is None and (is_genesis or parent < self.position.next_slot)):
            return None
        if parent == slot:
            return (
                f"The node's block of slot {slot} names its own slot as that of its parent (parentSlot), so nobody can "
                "tell whether a block is missing before it. Repair the node, or use another one."
            )
        if block is not None and parent < block:
            return (
                f"The node's block of slot {slot} has its parent in slot {parent}: slot {block}, whose records are "
                "stored, is not on its chain. If this persists, start an ingest with another --name and --from-slot."
            )
        return (
            f"The node omitted the block of slot {parent}, the parent of the block of slot {slot}. "
            "It is requested again."
        )

    def _records(self, slot: int, block: Block) -> list[StreamRecord]:
        try:
            return list(records(block, slot, self._options.chain))
        except (ValueError, IndexError) as error:
            raise NodeUnavailable(f"The node's block of slot {slot} can't be read: {error}.") from error

    def _verify_end_of_range(self) -> None:
        """Verify the end of a range by the parent of the first block after it.

        It proves that no block is missing.
        """
        assert self._options.to_slot is not None
        next_slot = self._rpc.first_slot_from(self._options.to_slot + 1)
        if next_slot is None:
            return
        fault = self._fault(next_slot, self._rpc.parent_of(next_slot))
        if fault is not None:
            raise NodeUnavailable(fault)
        self._range_is_complete = True


def _has_result(block: "Future[Block]") -> bool:
    return block.done() and not block.cancelled() and block.exception() is None
