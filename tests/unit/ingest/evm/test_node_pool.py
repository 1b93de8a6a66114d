"""One of several nodes of a chain is chosen.

Nodes fail, lag and disagree.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest
from structlog.testing import capture_logs

from headwater.errors import NodeBehind, NodeUnavailable
from headwater.ingest.evm.block_fetcher import BlockFetcher
from headwater.ingest.evm.node_pool import CHECK_S, CHECKS_TO_RETURN, HEAD_TTL_S, LAG_BLOCKS, NodePool
from headwater.ingest.evm.rpc_client import RpcClient
from tests.support.evm_chain import FakeChain
from tests.support.node import CUT, Behave, Node, Reply, results

KEY = "abcdef0123456789"


def chain(blocks: int = 40, seed: int = 1, **options: Any) -> FakeChain:
    chain = FakeChain(random.Random(seed), **options)
    chain.mine(blocks)
    return chain


def copy_of(true: FakeChain, blocks: int) -> FakeChain:
    """A node that has only the first blocks."""
    return FakeChain(random.Random(9), blocks=true.blocks[:blocks], _hashes=1000)


def node_of(true: FakeChain) -> Behave:
    return lambda request: results(request, true.answer)


class Pool:
    """A pool of nodes, with a test clock."""

    def __init__(self, stack: ExitStack, behaviours: Sequence[Behave]) -> None:
        self.now = 0.0
        self.servers = [stack.enter_context(Node(behave)) for behave in behaviours]
        clients = [
            RpcClient(f"{server.address}/{KEY}", Event(), attempts=2, sleep=lambda _: None) for server in self.servers
        ]
        fetchers = [BlockFetcher(client, sleep=lambda _: None) for client in clients]
        self.pool = NodePool(fetchers, clock=lambda: self.now, sleep=lambda _: None)
        stack.callback(self.pool.close)

    def asked(self) -> list[int]:
        """Return how many requests each node got since the last call."""
        counts = [len(server.requests) for server in self.servers]
        for server in self.servers:
            server.requests.clear()
        return counts

    def check(self) -> None:
        """Let the pool check all nodes."""
        self.now += CHECK_S + 1
        self.pool.header("finalized")
        assert self.pool._checking is not None
        self.pool._checking.result(20)


@pytest.fixture
def open_pool() -> Iterator[Callable[..., Pool]]:
    with ExitStack() as stack:
        yield lambda *behaviours: Pool(stack, behaviours)


def hashes(true: FakeChain, first: int, last: int) -> list[str]:
    return [block.hash for block in true.blocks[first : last + 1]]


def test_one_node_is_asked_while_it_is_healthy(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(node_of(true), node_of(true))
    pool.asked()
    for first in range(0, 30, 10):
        assert [block.hash for block in pool.pool.blocks(first, first + 9)] == hashes(true, first, first + 9)
    assert pool.asked()[1] == 0


@pytest.mark.parametrize("fault", [CUT, Reply(503), Reply(429), Reply(401), Reply(200, "no JSON-RPC")])
def test_another_node_is_used_when_one_fails(open_pool: Callable[..., Pool], fault: Reply | str) -> None:
    true = chain()
    pool = open_pool(node_of(true), node_of(true))
    pool.pool.blocks(0, 9)
    pool.servers[0].behave = lambda _: fault
    with capture_logs() as logs:
        assert [block.hash for block in pool.pool.blocks(10, 19)] == hashes(true, 10, 19)
        pool.asked()
        pool.pool.blocks(20, 29)
    assert pool.asked()[0] == 0
    assert pool.pool.take_counts()["failovers"] == 1
    (warning,) = [each for each in logs if each["event"] == "the ingest uses another node"]
    assert (warning["before"], warning["node"]) == ("1 (127.0.0.1)", "2 (127.0.0.1)")
    assert KEY not in str(logs)


def test_a_block_that_one_node_has_partially_comes_from_another(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    number = next(block.number for block in true.blocks if len(block.logs) > 2)

    def damaged(method: str, params: list[Any]) -> Any:
        found = true.answer(method, params)
        if method == "eth_getLogs":
            return found[1:]
        return [{**each, "logs": []} for each in found] if method == "eth_getBlockReceipts" else found

    pool = open_pool(lambda request: results(request, damaged), node_of(true))
    (block,) = pool.pool.blocks(number, number)
    assert len(block.logs) == len(true.blocks[number].logs)


def test_all_nodes_are_named_when_all_fail(open_pool: Callable[..., Pool]) -> None:
    pool = open_pool(lambda _: Reply(503), lambda _: CUT)
    with pytest.raises(NodeUnavailable, match=r"Node 1 \(127.0.0.1\): .*HTTP 503.* Node 2 \(127.0.0.1\): ") as caught:
        pool.pool.blocks(0, 9)
    assert KEY not in caught.value.detail
    pool.servers[0].behave = pool.servers[1].behave = node_of(chain())
    assert len(pool.pool.blocks(0, 9)) == 10


def test_blocks_that_a_node_does_not_have_yet_come_from_another(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(node_of(copy_of(true, 35)), node_of(true))
    assert [block.hash for block in pool.pool.blocks(34, 36)] == hashes(true, 34, 36)
    with pytest.raises(NodeBehind, match=r"Node 1 .* Node 2 "):
        pool.pool.blocks(39, 41)
    assert pool.pool.take_counts()["failovers"] == 0


def test_a_head_never_goes_back(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(node_of(true), node_of(copy_of(true, 38)))
    heads = [pool.pool.header("latest")]
    pool.servers[0].behave = lambda _: CUT
    heads.append(pool.pool.header("latest"))
    assert [head and int(head.number, 16) for head in heads] == [39, 39]
    pool.now += HEAD_TTL_S + 1
    behind = pool.pool.header("latest")
    assert behind is not None
    assert int(behind.number, 16) == 37


def test_a_lagging_node_is_not_used(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(node_of(copy_of(true, 39 - LAG_BLOCKS)), node_of(true))
    pool.pool.blocks(0, 9)
    pool.check()
    with capture_logs() as logs:
        head = pool.pool.header("latest")
    assert head is not None
    assert int(head.number, 16) == 39
    assert [each["node"] for each in logs] == ["2 (127.0.0.1)"]


def test_a_preferred_node_is_used_again_when_it_is_healthy_for_some_time(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(lambda _: CUT, node_of(true))
    pool.pool.blocks(0, 9)
    pool.servers[0].behave = node_of(true)
    for _ in range(CHECKS_TO_RETURN - 1):
        pool.check()
    assert pool.pool._current is pool.pool._nodes[1]
    pool.check()
    pool.pool.header("latest")
    assert pool.pool._current is pool.pool._nodes[0]


def test_a_requested_pause_is_respected(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(lambda _: Reply(429, headers=(("Retry-After", "90"),)), node_of(true))
    pool.pool.blocks(0, 9)
    pool.now += 70
    pool.asked()
    pool.pool.blocks(10, 19)
    pool.check()
    assert pool.asked()[0] == 0


def test_a_node_that_disagrees_about_a_block_is_used_last(open_pool: Callable[..., Pool]) -> None:
    true, other = chain(), chain(seed=2)
    pool = open_pool(node_of(true), node_of(other), node_of(true))
    pool.pool.blocks(20, 29)
    with capture_logs() as logs:
        pool.check()
        pool.check()
    (warning,) = [each for each in logs if each["event"] == "a node is on another fork than the ingest"]
    assert (warning["node"], warning["block"], warning["expected"]) == (
        "2 (127.0.0.1)",
        29,
        true.blocks[29].hash,
    )
    pool.servers[0].behave = lambda _: CUT
    pool.asked()
    assert [block.hash for block in pool.pool.blocks(30, 39)] == hashes(true, 30, 39)
    assert pool.asked()[1] == 0


def test_a_node_that_agrees_again_is_used_again(open_pool: Callable[..., Pool]) -> None:
    true, other = chain(), chain(seed=2)
    pool = open_pool(node_of(true), node_of(other))
    pool.pool.blocks(20, 29)
    pool.check()
    assert pool.pool._nodes[1].health.is_on_another_fork
    pool.servers[1].behave = node_of(true)
    pool.check()
    assert not pool.pool._nodes[1].health.is_on_another_fork


def test_the_node_that_has_the_ingests_block_is_used(open_pool: Callable[..., Pool]) -> None:
    true, other = chain(), chain(seed=2)
    pool = open_pool(node_of(other), node_of(true))
    with capture_logs() as logs:
        assert pool.pool.switch_to_node_with(20, true.blocks[20].hash)
    assert [each["event"] for each in logs] == [
        "a node is on another fork than the ingest",
        "the ingest uses another node",
    ]
    pool.asked()
    pool.pool.blocks(21, 25)
    assert pool.asked()[0] == 0


def test_a_block_is_off_the_chain_when_all_nodes_have_another(open_pool: Callable[..., Pool]) -> None:
    true, other = chain(), chain(seed=2)
    pool = open_pool(node_of(other), node_of(other))
    assert not pool.pool.switch_to_node_with(20, true.blocks[20].hash)
    pool.servers[1].behave = lambda _: CUT
    with pytest.raises(NodeUnavailable, match="Not all nodes have returned a block 20"):
        pool.pool.switch_to_node_with(20, true.blocks[20].hash)


def test_a_node_of_another_chain_is_not_used(open_pool: Callable[..., Pool]) -> None:
    true = chain()
    pool = open_pool(node_of(true), node_of(chain(seed=2, chain_id=137)))
    assert pool.pool.chain_id(8453) == 8453
    pool.servers[0].behave = lambda _: CUT
    with capture_logs() as logs, pytest.raises(NodeUnavailable, match=r"node serves chain 137.*--rpc"):
        pool.pool.blocks(0, 9)
    assert "a node can't be used" in str(logs)


@pytest.mark.parametrize("order", [1, -1])
def test_the_expected_chain_is_selected_if_a_node_has_it(open_pool: Callable[..., Pool], order: int) -> None:
    pool = open_pool(*[node_of(chain(chain_id=chain_id)) for chain_id in (8453, 137)[::order]])
    assert pool.pool.chain_id(1) in (8453, 137)
    assert pool.pool.chain_id(137) == 137
