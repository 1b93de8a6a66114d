"""The chain reader remembers the health of its nodes, and so starts with the right node."""

import itertools
import random
import threading
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from headwater.backoff import Backoff
from headwater.errors import IngestStopped
from headwater.ingest.base import Step
from headwater.ingest.evm.abi import Abis
from headwater.ingest.evm.chain_reader import EvmReader
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.runner import IngestMetrics, run
from tests.support.evm_chain import FINAL_BLOCKS, FakeChain
from tests.support.node import CUT, Behave, Node, Reply, calls_of, error, results
from tests.support.ports import free_port

LAST = 30


class Store:
    """A writer that stores the keys of records, and the position."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.position: bytes | None = None

    def write(self, step: Step) -> Any:
        self.keys += [record.key for record in step.records if record.stream == "log"]
        self.position = step.position
        return type("StepResult", (), {"records": {}, "left_out": []})

    @contextmanager
    def open(self) -> Any:
        yield self, self.position


def chain(**options: Any) -> FakeChain:
    chain = FakeChain(random.Random(4), **options)
    chain.mine(LAST + FINAL_BLOCKS + 1)
    return chain


def installation_keys(true: FakeChain) -> list[bytes]:
    logs = [log for block in true.blocks[: LAST + 1] for log in block.logs]
    return [f"base:{log['transactionHash']}:{int(log['logIndex'], 16)}".encode() for log in logs]


def ingest(addresses: list[str]) -> tuple[Store, IngestMetrics]:
    """Ingest a range to its end."""
    options = EvmOptions.model_validate(
        {"name": "n", "chain": "base", "rpc": addresses, "from_block": 0, "to_block": LAST, "parallel": 1}
    )
    store, metrics = Store(), IngestMetrics()
    reader = EvmReader(
        options=options,
        decoder=Decoder(Abis([], {})),
        tokens={},
        zerolag=[],
        read_written_records=lambda *_: iter([]),
        stop=Event(),
    )
    run(reader, store.open, Event(), metrics, Backoff(0.001, 0.01))
    return store, metrics


def test_node_capabilities_are_kept_during_an_outage() -> None:
    """The node rejects batches, which is detected once.

    The node is unavailable for some requests.
    """
    true, turns = chain(), itertools.count(1)

    def behave(request: Any) -> Reply:
        if isinstance(request, list):
            return error(request, -32600, "Batch requests are not supported")
        return Reply(401) if 30 <= next(turns) < 60 else results(request, true.answer)

    with Node(behave) as node:
        store, metrics = ingest([node.address])
    assert metrics.errors > 0
    assert store.keys == installation_keys(true)
    assert sum(isinstance(request, list) for request in node.requests) <= 6


def test_an_incomplete_response_before_an_outage_is_counted_once() -> None:
    """The node omits the logs of block 5, and is unavailable once when block 20 is requested."""
    true, outage = chain(), iter([Reply(401)])

    def without_logs(method: str, params: list[Any]) -> Any:
        found = true.answer(method, params)
        is_omitted = method == "eth_getBlockReceipts" and params == [hex(5)]
        return [{**receipt, "logs": []} for receipt in found] if is_omitted else found

    def behave(request: Any) -> Reply:
        is_block_20 = any(call["params"][:1] == [hex(20)] for call in calls_of(request))
        return (is_block_20 and next(outage, None)) or results(request, without_logs)

    with Node(behave) as node:
        store, metrics = ingest([node.address])
    assert store.keys == installation_keys(true)
    assert (metrics.errors, metrics.counts["incomplete"]) == (1, 1)


@pytest.mark.parametrize("fault", [lambda _: CUT, lambda request: results(request, chain(chain_id=137).answer)])
def test_an_ingest_starts_with_available_nodes(fault: Behave) -> None:
    true = chain()
    with Node(fault) as bad, Node(lambda request: results(request, true.answer)) as good:
        store, metrics = ingest([bad.address, good.address])
    assert store.keys == installation_keys(true)
    assert metrics.errors == 0


def test_subscriptions_that_fail_are_counted() -> None:
    true, lock, stop, metrics = chain(), threading.Lock(), Event(), IngestMetrics()

    def behave(request: Any) -> Reply:
        """Grow the chain until a failure is counted."""
        with lock:
            true.mine(1)
            if metrics.counts["subscription_failures"]:
                stop.set()
            return results(request, true.answer)

    with Node(behave) as node:
        options = EvmOptions.model_validate(
            {"name": "n", "chain": "base", "rpc": [node.address], "ws": f"ws://127.0.0.1:{free_port()}",
             "from_block": LAST, "poll_s": 0.01}
        )  # fmt: skip
        reader = EvmReader(
            options=options,
            decoder=Decoder(Abis([], {})),
            tokens={},
            zerolag=[],
            read_written_records=lambda *_: iter([]),
            stop=stop,
        )
        run(reader, Store().open, stop, metrics, Backoff(0.001, 0.01))
    assert metrics.counts["subscription_failures"] >= 1


def test_the_ingest_stops_if_all_nodes_are_of_other_chains() -> None:
    other = chain(chain_id=137)
    with (
        Node(lambda request: results(request, other.answer)) as node,
        pytest.raises(IngestStopped, match="The node serves chain 137, but base is chain 8453"),
    ):
        ingest([node.address])


def test_two_incomplete_nodes_together_give_all_blocks() -> None:
    true, lock = chain(), threading.Lock()

    def lacking(numbers: set[int]) -> Behave:
        def answer(method: str, params: list[Any]) -> Any:
            if method == "eth_getBlockByNumber" and params[0].startswith("0x") and int(params[0], 16) in numbers:
                return None
            return true.answer(method, params)

        def behave(request: Any) -> Reply:
            with lock:
                return results(request, answer)

        return behave

    with Node(lacking(set(range(10)))) as one, Node(lacking(set(range(20, 30)))) as other:
        store, _ = ingest([one.address, other.address])
        assert {call["method"] for request in one.requests for call in calls_of(request)} >= {"eth_getBlockReceipts"}
    assert store.keys == installation_keys(true)
