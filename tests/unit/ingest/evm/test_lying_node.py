"""On nodes with wrong data, the ingest's streams equal the streams of a correct node.

The ingest never stops forever.

A run prints its seed; HEADWATER_TEST_SEED=<seed> repeats the run of ten thousand blocks.
"""

import json
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from headwater.backoff import Backoff
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.abi import Abis
from headwater.ingest.evm.blocks import Header, Receipt, from_receipts
from headwater.ingest.evm.chain_reader import EvmReader
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.position import Position
from headwater.ingest.evm.records import ENTITIES, Converter
from headwater.ingest.evm.well_known import well_known
from headwater.ingest.runner import IngestMetrics, run
from tests.support.evm_chain import FINAL_BLOCKS, ChainBlock, FakeChain
from tests.support.lying_node import LyingNode
from tests.support.node import Node

ONE_METHOD_ALONE = {"receipt_status", "receipt_gas_used", "receipt_effective_gas_price", "transaction_value"}
"""Members that only one of the two methods returns."""
AHEAD = 40
"""How many blocks the chain may be ahead of the ingest."""
CHAINS: dict[str, dict[str, Any]] = {
    "base": {"chain_id": 8453},
    "polygon": {"chain_id": 137, "sprint": 16},
    "polygon whose system logs count from 0": {"chain_id": 137, "sprint": 16, "restarted": True},
}


class Store:
    """A fake Kafka with the records of each stream, and the position."""

    def __init__(self) -> None:
        self.records: dict[str, list[StreamRecord]] = {}
        self.position: bytes | None = None
        self.first: int | None = None

    def write(self, step: Step) -> Any:
        for record in step.records:
            self.records.setdefault(record.stream, []).append(record)
        self.position = step.position
        if self.first is None:
            self.first = self.state.recent[0].number + 1
        return type("StepResult", (), {"records": {}, "left_out": []})

    @property
    def state(self) -> Position:
        return msgspec.json.decode(self.position or b'{"chain_id": 0}', type=Position)

    @contextmanager
    def open(self) -> Iterator[Any]:
        yield self, self.position

    def read_written_records(self, streams: Sequence[str], since_ms: int) -> Iterator[StreamRecord]:
        return iter([record for stream in streams for record in self.records.get(stream, [])])

    @property
    def head(self) -> int:
        return self.state.recent[-1].number if self.state.recent else -1


class World:
    """A chain that grows and forks, nodes that return wrong data, and an ingest."""

    def __init__(self, seed: int, chain: str, nodes: int) -> None:
        self.rng = random.Random(seed)
        self.chain = FakeChain(random.Random(seed + 1), **CHAINS[chain])
        self.chain.mine(FINAL_BLOCKS + 5)
        self.lock = threading.Lock()
        self.liars = [LyingNode(self.chain, random.Random(seed + 2 + n), self.lock) for n in range(nodes)]
        self.name, self.fetch = chain.split()[0], self.rng.choice(["receipts", "logs"])
        self.store, self.stop, self.metrics = Store(), threading.Event(), IngestMetrics()
        self.failure: BaseException | None = None
        self.reorganisations = 0

    def ingest(self, addresses: Sequence[str]) -> None:
        options = EvmOptions.model_validate(
            {"name": "n", "chain": self.name, "rpc": addresses, "poll_s": 0.005, "from_block": 0, "fetch": self.fetch}
        )
        decoder = Decoder(Abis(well_known(), {}))
        reader = EvmReader(
            options=options,
            decoder=decoder,
            tokens={},
            zerolag=ENTITIES,
            read_written_records=self.store.read_written_records,
            stop=self.stop,
        )
        try:
            run(reader, self.store.open, self.stop, self.metrics, Backoff(0.001, 0.01))
        except BaseException as error:  # noqa: BLE001  # an ingest that ends by itself fails the test
            self.failure = error

    def grow(self, blocks: int, within_s: float) -> None:
        """Mine this number of blocks, with forks, no faster than the ingest reads them."""
        deadline = time.monotonic() + within_s
        while self.chain.head < blocks or not self.is_read():
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, f"{self.store.head} of {self.chain.head}, {self.store.state.final}"
            if self.chain.head < min(blocks, self.store.head + AHEAD):
                with self.lock:
                    self._happen()
            time.sleep(0.002)

    def _happen(self) -> None:
        self.chain.mine(self.rng.choice([1, 1, 2, 5]))
        if self.rng.random() < 0.05 or (not self.reorganisations and self.chain.head > 60):
            self.reorganisations += 1
            self.chain.reorganise(self.rng.randint(1, FINAL_BLOCKS - 3))
        if len(self.liars) > 1 and self.rng.random() < 0.2:
            away = self.rng.choice(self.liars)
            for liar in self.liars:
                liar.is_away = liar is away

    def is_read(self) -> bool:
        state, head = self.store.state, self.chain.head
        newest = state.recent[-1] if state.recent else None
        final = state.final.number if state.final else -1
        return newest is not None and newest.hash == self.chain.blocks[-1].hash and final == head - FINAL_BLOCKS

    def honest(self, blocks: Sequence[ChainBlock]) -> dict[str, list[tuple[bytes, dict[str, Any]]]]:
        """Return the records that a correct node gives for these blocks."""
        converter = Converter(self.name, Decoder(Abis(well_known(), {})), {})
        found: dict[str, list[tuple[bytes, dict[str, Any]]]] = {entity: [] for entity in ENTITIES}
        for block in blocks:
            header = msgspec.convert(block.header(full=False), Header)
            converted = from_receipts(header, msgspec.convert(block.receipts(), list[Receipt]))
            assert converted is not None
            for record in converter.convert(converted, self.metrics.counts):
                found[record.entity].append((record.key, comparable(record.value)))
        return found


def comparable(value: bytes) -> dict[str, Any]:
    return {name: member for name, member in json.loads(value).items() if name not in ONE_METHOD_ALONE}


def standing(records: Sequence[StreamRecord]) -> dict[bytes, dict[str, Any]]:
    """Return the records of a zerolag stream after all retractions.

    Assert that no record is repeated.
    """
    found: dict[bytes, dict[str, Any]] = {}
    for record in records:
        value = comparable(record.value)
        if value.pop("removed"):
            assert found.pop(record.key) == value
        else:
            assert record.key not in found
            found[record.key] = value
    return found


def streams_equal_those_of_an_honest_node(seed: int, chain: str, nodes: int, blocks: int, within_s: float) -> None:
    print(f"seed {seed}")
    world = World(seed, chain, nodes)
    servers = [Node(liar) for liar in world.liars]
    ingest = threading.Thread(target=world.ingest, args=([server.address for server in servers],), daemon=True)
    ingest.start()
    try:
        world.grow(blocks, within_s)
    finally:
        world.stop.set()
        ingest.join(20)
        for server in servers:
            server.__exit__()
    assert world.failure is None, world.failure
    assert world.reorganisations
    faults = sum((liar.faults for liar in world.liars), start=type(world.liars[0].faults)())
    print(f"{world.fetch} first, reorganisations {world.reorganisations}, waits {world.metrics.errors}, {dict(faults)}")
    final = world.honest(world.chain.blocks[: world.chain.head - FINAL_BLOCKS + 1])
    assert world.store.first is not None
    fast = world.honest(world.chain.blocks[world.store.first :])
    for entity in ENTITIES:
        written = world.store.records.get(entity, [])
        assert [(record.key, comparable(record.value)) for record in written] == final[entity]
        for _, value in fast[entity]:
            value.pop("removed", None)
        assert standing(world.store.records.get(f"{entity}.zerolag", [])) == dict(fast[entity])


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.ingest.jsonrpc.MAX_FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("headwater.ingest.evm.block_fetcher.RETRY_PAUSE_S", 0.002)
    monkeypatch.setattr("headwater.ingest.evm.node_pool.HASH_PAUSE_S", 0.002)


@pytest.mark.parametrize("chain", ["base", "polygon whose system logs count from 0"])
def test_a_lying_node(chain: str) -> None:
    streams_equal_those_of_an_honest_node(random.randrange(2**32), chain, 1, 120, 120)


@pytest.mark.long
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("chain", CHAINS)
def test_lying_nodes(chain: str, nodes: int) -> None:
    """Make one of several nodes at a time unavailable."""
    streams_equal_those_of_an_honest_node(random.randrange(2**32), chain, nodes, 400, 200)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chain", CHAINS)
def test_a_lying_node_for_ten_thousand_blocks(chain: str) -> None:
    seed = int(os.environ.get("HEADWATER_TEST_SEED") or random.randrange(2**32))
    streams_equal_those_of_an_honest_node(seed, chain, 1, 10_000, 3500)
