"""Reads the blocks of a Solana node in the order of their slots.

The blocks are yielded as steps. Nodes behind a load balancer may be at different heights, and a node that lags omits
the newest blocks from getBlocks without an error. So a slot counts as skipped only when the parent of the next block
proves that the slot has no block. A block whose parent is not the last stored block is not accepted, and the slots in
between are requested again.
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
"""The number of slots in one request. The number is doubled while all slots are skipped."""
STEP_BYTES: Final = 8 << 20
"""Fetched blocks go into one step until its records have this size."""


class Position(msgspec.Struct):
    """The position of a Solana ingest.

    Attributes:
        next_slot: The first slot that is not stored.
        last_block_slot: The slot of the last stored block; None before the first block.
    """

    next_slot: int
    last_block_slot: int | None = msgspec.field(default=None, name="block")


class _Fetched(NamedTuple):
    """A fetched block.

    Attributes:
        slot: The slot of the block.
        block: The block.
        is_next_fetched: Whether the next block is fetched already, so that both blocks can go into one step.
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
        """Implement ChainReader.steps, up to `to_slot`.

        A first start begins at `from_slot`, or at the newest slot, and stores this start position first.
        """
        with self._opened() as (rpc, pool, cancel_token):
            blocks = _BlockReader(self._options, rpc, pool)
            blocks.set_start(position)
            if position is None:
                yield blocks.step([], 0)
            while not blocks.is_at_end():
                before = blocks.position.next_slot
                yield from blocks.steps()
                if blocks.position.next_slot == before:
                    cancel_token.wait(self._options.poll_s)
                    yield None

    def close(self) -> None:
        """Implement ChainReader.close. `steps` leaves nothing open."""

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


class _BlockReader:
    """Fetches the blocks after the position, and advances the position."""

    def __init__(self, options: SolanaOptions, rpc: Rpc, pool: ThreadPoolExecutor) -> None:
        self._options = options
        self._rpc = rpc
        self._pool = pool
        self._slots_per_request = SLOTS_PER_REQUEST
        self._is_range_complete = False
        self.position = Position(0)

    def set_start(self, position: bytes | None) -> None:
        """Set the position to the stored position; at the first start, to the first slot to read."""
        if position is not None:
            self.position = read_position(position, Position, self._options.name)
            return
        first = self._options.from_slot
        self.position = Position(self._rpc.newest_slot() if first is None else first)

    def step(self, records: Sequence[StreamRecord], time_ms: int) -> Step:
        """Return a step with these records and the current position."""
        return Step(records, msgspec.json.encode(self.position), time_ms)

    def is_at_end(self) -> bool:
        """Return whether all blocks of the slots up to `to_slot` are stored."""
        last = self._options.to_slot
        return last is not None and (self.position.next_slot > last or self._is_range_complete)

    def steps(self) -> Iterator[Step]:
        """Yield steps with the blocks of the next range of slots.

        The range has at most `_slots_per_request` slots, and ends at the newest slot or at `to_slot` at the latest.
        """
        newest = self._rpc.newest_slot()
        end = newest if self._options.to_slot is None else min(newest, self._options.to_slot)
        first = self.position.next_slot
        last = min(end, first + self._slots_per_request - 1)
        if last < first:
            return
        slots = [slot for slot in self._rpc.slots(first, last) if first <= slot <= last]
        yield from self._steps_of(slots)
        if slots:
            self._slots_per_request = SLOTS_PER_REQUEST
        elif last < end:
            self._slots_per_request = min(MAX_SLOTS_PER_CALL, self._slots_per_request * 2)
        elif end == self._options.to_slot:
            self._verify_end_of_range()

    def _steps_of(self, slots: Sequence[int]) -> Iterator[Step]:
        """Yield steps with the blocks of these slots."""
        records: list[StreamRecord] = []
        size, time_ms, has_new_block = 0, 0, False
        for slot, block, is_next_fetched in self._fetched(slots):
            fault = self._fault(slot, block.parent_slot)
            if fault is None:
                block_records = self._records(slot, block)
                records += block_records
                size += sum(len(record.value) for record in block_records)
                time_ms = max(time_ms, (block.block_time or 0) * 1000)
                self.position, has_new_block = Position(slot + 1, slot), True
            if has_new_block and (fault or size >= STEP_BYTES or not is_next_fetched):
                yield self.step(records, time_ms)
                records, size, has_new_block = [], 0, False
            if fault is not None:
                raise NodeUnavailable(fault)

    def _fetched(self, slots: Sequence[int]) -> Iterator[_Fetched]:
        """Yield blocks in order, with several requests in flight."""
        in_flight: deque[tuple[int, Future[Block]]] = deque()
        remaining = deque(slots)
        while remaining or in_flight:
            while remaining and len(in_flight) < self._options.parallel:
                slot = remaining.popleft()
                in_flight.append((slot, self._pool.submit(self._rpc.block, slot)))
            slot, future = in_flight.popleft()
            yield _Fetched(slot, future.result(), bool(in_flight) and _has_result(in_flight[0][1]))

    def _fault(self, slot: int, parent_slot: int) -> str | None:
        """Return why the block of this slot can't follow the last stored block.

        Returns None if the block can.
        """
        last_block_slot = self.position.last_block_slot
        is_genesis = slot == parent_slot == 0
        if parent_slot == last_block_slot or (
            last_block_slot is None and (is_genesis or parent_slot < self.position.next_slot)
        ):
            return None
        if parent_slot == slot:
            return (
                f"The node's block of slot {slot} names its own slot as its parent's slot (parentSlot), so it does not "
                "show whether a block is missing before it. Repair the node, or use another one."
            )
        if last_block_slot is not None and parent_slot < last_block_slot:
            return (
                f"The node's block of slot {slot} has its parent in slot {parent_slot}: slot {last_block_slot}, whose "
                "records are stored, is not on its chain. If this persists, start an ingest with another --name and "
                "--from-slot."
            )
        return (
            f"The node omitted the block of slot {parent_slot}, the parent of the block of slot {slot}. "
            "It is requested again."
        )

    def _records(self, slot: int, block: Block) -> list[StreamRecord]:
        try:
            return list(records(block, slot, self._options.chain))
        except (ValueError, IndexError) as error:
            raise NodeUnavailable(f"The node's block of slot {slot} can't be read: {error}.") from error

    def _verify_end_of_range(self) -> None:
        """Verify the end of a range by the parent of the first block after the range.

        The parent proves that no block of the range is missing.
        """
        assert self._options.to_slot is not None
        next_slot = self._rpc.first_slot_from(self._options.to_slot + 1)
        if next_slot is None:
            return
        fault = self._fault(next_slot, self._rpc.parent_slot(next_slot))
        if fault is not None:
            raise NodeUnavailable(fault)
        self._is_range_complete = True


def _has_result(future: "Future[Block]") -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
