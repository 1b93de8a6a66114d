"""Both streams of an ingest are correct on a chain that grows and forks.

The chain is in memory, and the ingest process dies.

Whenever the chain is stable, the final streams have the final blocks, once and in order. After all retractions, the
zerolag streams have the blocks of the current chain.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import SecretStr

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block, Header, Log
from headwater.ingest.evm.chain_reader import first_step
from headwater.ingest.evm.final_blocks import FinalBlocks
from headwater.ingest.evm.head_blocks import ZEROLAG_SUFFIX, HeadBlocks
from headwater.ingest.evm.ingest_state import IngestState
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.position import Position, read_evm_position
from headwater.ingest.evm.records import ENTITIES, Converter
from headwater.ingest.evm.token_transfers import TRANSFER
from tests.examples import examples

CONFIRMATIONS, DEPTH = 3, 6
WORD, TOKEN = "0x" + "0" * 64, "0x" + "aa" * 20


class Chain:
    """A node with a chain in memory. It hides its newest `behind` blocks, like a lagging node."""

    range_size = 4

    def __init__(self) -> None:
        self.blocks_now: list[Block] = []
        self.behind = 0
        self._hashes = itertools.count(1)
        self.mine(1)

    def mine(self, logs: int) -> None:
        parent = self.blocks_now[-1].hash if self.blocks_now else WORD
        number, hash_ = len(self.blocks_now), f"0x{next(self._hashes):064x}"
        # Transactions reappear in blocks of another fork with the same keys, as on a real chain.
        logs_of_block = [
            Log(TOKEN, [TRANSFER, WORD, WORD], WORD, hash_, hex(number), f"0x{number:x}", "0x0", hex(index))
            for index in range(logs)
        ]
        self.blocks_now.append(Block(number, hash_, parent, number, logs_of_block, {}))

    def header(self, block: int | str) -> Header | None:
        visible = self.blocks_now[: max(1, len(self.blocks_now) - self.behind)]
        number = len(visible) - 1 if block == "latest" else block
        assert isinstance(number, int)
        if not 0 <= number < len(visible):
            return None
        found = visible[number]
        return Header(hex(number), found.hash, found.parent_hash, hex(found.timestamp))

    def headers(self, blocks: Sequence[int | str]) -> list[Header | None]:
        return [self.header(block) for block in blocks]

    def switch_to_node_with(self, number: int, hash_: str) -> bool:
        found = self.header(number)
        return found is not None and found.hash == hash_

    def take_counts(self) -> Counter[str]:
        return Counter()

    def blocks(self, first: int, last: int) -> list[Block]:
        if last >= len(self.blocks_now):
            raise NodeUnavailable("not there yet")
        return self.blocks_now[first : last + 1]


class Crash(Exception):
    """Raised when the process dies."""


class Store:
    """A fake Kafka that stores steps atomically.

    `first` is the first block of the zerolag streams.
    """

    def __init__(self) -> None:
        self.records: list[StreamRecord] = []
        self.position: bytes | None = None
        self.first = 0

    def take(self, step: Step) -> None:
        if self.position is None:
            begun_at = read_evm_position(step.position, "test", 8453).recent
            self.first = begun_at[0].number + 1 if begun_at else 0
        self.records += step.records
        self.position = step.position

    def read_written_records(self, streams: Sequence[str], since_ms: int) -> Iterator[StreamRecord]:
        return iter([record for record in self.records if record.stream in streams])

    def of(self, stream: str) -> list[StreamRecord]:
        return [record for record in self.records if record.stream == stream]


def steps_of(
    chain: Chain,
    store: Store,
    pool: ThreadPoolExecutor,
    *,
    depth: int = DEPTH,
    fast: bool = True,
    from_block: int | None = 0,
) -> Iterator[Step]:
    """Run a process from its start until there is nothing new.

    If `fast`, it also writes the zerolag streams.
    """
    options = EvmOptions(
        name="test",
        chain="base",
        rpc=(SecretStr("http://node"),),
        finality=CONFIRMATIONS,
        from_block=from_block,
        reorg_depth=depth,
    )
    position = Position(8453) if store.position is None else read_evm_position(store.position, "test", 8453)
    work = IngestState(options=options, nodes=chain, converter=Converter("base", None, {}), position=position)  # type: ignore[arg-type]  # a chain in memory
    head, final_blocks = HeadBlocks(work, ENTITIES, store.read_written_records), FinalBlocks(work, pool)
    final = final_blocks.steps()
    yield from first_step(work, final_blocks, head if fast else None)
    while True:
        before = len(store.records), store.position
        if fast:
            yield from head.steps()
        while (step := next(final)) is not None:
            yield step
        if (len(store.records), store.position) == before:
            return


class Ingest(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.chain, self.store = Chain(), Store()
        self.pool = ThreadPoolExecutor(1)
        self.calm = False
        self.longest = 1

    def teardown(self) -> None:
        self.pool.shutdown()

    @rule(logs=st.lists(st.integers(0, 3), min_size=1, max_size=9))
    def mine(self, logs: list[int]) -> None:
        self.calm = False
        for count in logs:
            self.chain.mine(count)
        self.longest = max(self.longest, len(self.chain.blocks_now))

    @rule(depth=st.integers(1, CONFIRMATIONS), logs=st.lists(st.integers(0, 3), min_size=1, max_size=5))
    def fork(self, depth: int, logs: list[int]) -> None:
        """Fork as deep as blocks are not final. The new branch may be shorter for a while."""
        final = self.longest - CONFIRMATIONS
        del self.chain.blocks_now[max(1, final, len(self.chain.blocks_now) - depth) :]
        self.mine(logs)

    @rule(behind=st.integers(0, 3))
    def ask_another_node(self, behind: int) -> None:
        self.chain.behind = behind

    @rule()
    def run(self) -> None:
        for step in steps_of(self.chain, self.store, self.pool):
            self.store.take(step)
        self.calm = self.chain.behind == 0

    @rule(steps=st.integers(0, 4), stored=st.booleans())
    def die(self, steps: int, stored: bool) -> None:
        """Kill the process after some steps.

        The last one may be stored, as in an unconfirmed transaction.
        """
        self.calm = False
        running = steps_of(self.chain, self.store, self.pool)
        for step in itertools.islice(running, steps):
            self.store.take(step)
        last = next(running, None)
        if stored and last is not None:
            self.store.take(last)

    @invariant()
    def final_is_never_orphaned(self) -> None:
        final = self.store.of("log")
        assert len({record.key for record in final}) == len(final)
        assert all(any(hash_of(record) == block.hash for block in self.chain.blocks_now) for record in final)

    @precondition(lambda self: self.calm)
    @invariant()
    def everything_arrived(self) -> None:
        blocks, position = self.chain.blocks_now, read_evm_position(self.store.position or b"", "test", 8453)
        assert position.final is not None
        assert hashes(self.store.of("log")) == of_blocks(blocks[: position.final.number + 1])
        assert position.final.number >= len(blocks) - 1 - CONFIRMATIONS
        if position.recent[-1].number == blocks[-1].number:  # a shorter branch looks like a lagging node
            assert standing(self.store) == of_blocks(blocks[self.store.first :])


def hash_of(record: StreamRecord) -> str:
    return record.value.split(b'"block_hash":"', 1)[1][:66].decode()


def hashes(records: list[StreamRecord]) -> list[str]:
    return [hash_of(record) for record in records]


def of_blocks(blocks: Sequence[Block]) -> list[str]:
    return [block.hash for block in blocks for _ in block.logs]


def standing(store: Store) -> list[str]:
    """Return the blocks of the records that a consumer has after all retractions."""
    state: dict[bytes, StreamRecord] = {}
    for record in store.of("log.zerolag"):
        if record.value.endswith(b'"removed":true}'):
            assert hash_of(state.pop(record.key)) == hash_of(record)
        else:
            assert record.key not in state
            state[record.key] = record
    return sorted(hashes(list(state.values())))


Ingest.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=20)
TestIngest = Ingest.TestCase


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def run(chain: Chain, store: Store, pool: ThreadPoolExecutor, **how: Any) -> None:
    for step in steps_of(chain, store, pool, **how):
        store.take(step)


def grown(logs: int) -> Chain:
    chain = Chain()
    for _ in range(logs):
        chain.mine(1)
    return chain


def test_a_chain_shorter_than_the_confirmations_starts_at_its_first_block(pool: ThreadPoolExecutor) -> None:
    chain, store = grown(1), Store()
    run(chain, store, pool, from_block=None, fast=False)
    for _ in range(4):
        chain.mine(1)
    run(chain, store, pool, from_block=None, fast=False)
    assert hashes(store.of("log")) == of_blocks(chain.blocks_now[:-CONFIRMATIONS])


def test_a_first_start_begins_at_the_newest_final_block(pool: ThreadPoolExecutor) -> None:
    chain, store = grown(9), Store()
    run(chain, store, pool, from_block=None, fast=False)
    assert hashes(store.of("log")) == [chain.blocks_now[-1 - CONFIRMATIONS].hash]


def test_a_reorganisation_below_final_blocks_stops_the_ingest(pool: ThreadPoolExecutor) -> None:
    chain, store = grown(9), Store()
    run(chain, store, pool, fast=False)
    del chain.blocks_now[5:]
    for _ in range(9):
        chain.mine(1)
    with pytest.raises(IngestStopped, match="another block 6 than the block whose records are in its streams"):
        run(chain, store, pool, fast=False)


def test_a_too_deep_reorganisation_stops_the_ingest(pool: ThreadPoolExecutor) -> None:
    chain, store = grown(2), Store()
    run(chain, store, pool, depth=2)
    for _ in range(9):
        chain.mine(1)
    run(chain, store, pool, depth=2)
    del chain.blocks_now[9:]
    for _ in range(9):
        chain.mine(1)
    with pytest.raises(IngestStopped, match=r"reorganised below block 9, deeper than the 3 blocks .* --reorg-depth"):
        run(chain, store, pool, depth=2)


def without_transfers(records: list[StreamRecord]) -> list[StreamRecord]:
    return [record for record in records if record.stream != "erc20_token_transfer.zerolag"]


def with_foreign_record(records: list[StreamRecord]) -> list[StreamRecord]:
    return [*records, records[-1]._replace(key=b"key of another program")]


@pytest.mark.parametrize(("change", "count"), [(without_transfers, 1), (with_foreign_record, 3)])
def test_the_ingest_stops_if_the_topics_have_other_records_than_it_wrote(
    pool: ThreadPoolExecutor, change: Callable[[list[StreamRecord]], list[StreamRecord]], count: int
) -> None:
    chain, store = grown(5), Store()
    run(chain, store, pool)
    chain.mine(1)
    run(chain, store, pool)
    store.records = change([record for record in store.records if record.stream.endswith(ZEROLAG_SUFFIX)])
    del chain.blocks_now[-1:]
    chain.mine(1)
    with pytest.raises(IngestStopped, match=f"have {count} records of orphaned blocks, but the ingest wrote 2"):
        run(chain, store, pool)
