"""Blocks from an HTTP server that behaves like faulty nodes."""

import functools
import itertools
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import httpx2
import pytest

from headwater.errors import BlockIncomplete, NodeBehind, NodeCallFailed, NodeMethodMissing, NodeUnavailable
from headwater.ingest.evm.block_fetcher import METHOD_RETRY_S, RETRY_PAUSE_S, BlockFetcher
from headwater.ingest.evm.blocks import Block
from headwater.ingest.evm.completeness import Method
from tests.support.evm_chain import NOBODY, ChainBlock, FakeChain
from tests.support.node import Behave, CallError, Node, Reply, calls_of, error, results
from tests.unit.ingest.evm.test_rpc_client import client

SPRINT = 16
BlockResponse = Callable[[str, list[Any]], Any]
WORD = "0x" + "1" * 64
METHODS: tuple[Method, Method] = ("receipts", "logs")


@functools.cache
def chain(blocks: int = 60, seed: int = 1, **options: Any) -> FakeChain:
    """Return a chain that tests share, so none of them changes it."""
    return new_chain(blocks, seed, **options)


def new_chain(blocks: int, seed: int = 1, **options: Any) -> FakeChain:
    chain = FakeChain(random.Random(seed), **options)
    chain.mine(blocks)
    return chain


def width(call: dict[str, Any]) -> int:
    """Return the number of blocks of an eth_getLogs request, or 0 for other methods."""
    if call["method"] != "eth_getLogs":
        return 0
    asked = call["params"][0]
    return int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) + 1


def fetched(
    behave: Behave,
    method: Method | None = None,
    first: int = 0,
    last: int = 9,
    sprint: int | None = None,
    **options: Any,
) -> tuple[list[Block], BlockFetcher, Node]:
    with client(behave, **options) as (rpc, node, _):
        fetcher = BlockFetcher(rpc, method, sprint, sleep=lambda _: None)
        return fetcher.blocks(first, last), fetcher, node


def assert_whole(blocks: Sequence[Block], expected: Sequence[ChainBlock]) -> None:
    """Assert that the blocks have all logs once and in order.

    They must have the parties of their transactions.
    """
    assert [block.hash for block in blocks] == [block.hash for block in expected]
    for block, true in zip(blocks, expected, strict=True):
        assert [(log.transaction_hash, log.log_index, log.data) for log in block.logs] == [
            (log["transactionHash"], log["logIndex"], log["data"]) for log in true.logs
        ]
        for transaction in true.transactions:
            assert block.parties[transaction["hash"]] == (transaction["from"], transaction["to"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sprint", [None, SPRINT])
def test_both_methods_give_the_same_blocks(method: Method, sprint: int | None) -> None:
    true = chain(sprint=sprint)
    blocks, fetcher, _ = fetched(lambda request: results(request, true.answer), method, 5, 50, sprint)
    assert_whole(blocks, true.blocks[5:51])
    assert fetcher.incomplete == 0


def test_logs_are_used_while_a_node_lacks_receipts() -> None:
    true, now = chain(), [0.0]

    def no_receipts(request: Any) -> Reply:
        if any(call["method"] == "eth_getBlockReceipts" for call in calls_of(request)):
            return error(request, -32601, "the method eth_getBlockReceipts does not exist")
        return results(request, true.answer)

    with client(no_receipts) as (rpc, node, _):
        fetcher = BlockFetcher(rpc, sleep=lambda _: None, clock=lambda: now[0])
        assert_whole(fetcher.blocks(0, 9), true.blocks[:10])
        node.requests.clear()
        assert_whole(fetcher.blocks(10, 19), true.blocks[10:20])
        assert "eth_getBlockReceipts" not in str(node.requests)
        now[0] = METHOD_RETRY_S + 1
        node.behave = lambda request: results(request, true.answer)
        assert_whole(fetcher.blocks(0, 9), true.blocks[:10])
        assert "eth_getBlockReceipts" in str(node.requests)


def test_a_node_that_lacks_both_methods_is_an_error() -> None:
    true = chain()

    def answer(method: str, params: list[Any]) -> Any:
        return CallError(-32601, "no such method") if method != "eth_getBlockByNumber" else true.answer(method, params)

    with pytest.raises(NodeMethodMissing):
        fetched(lambda request: results(request, answer))


# Ranges.

REFUSALS: list[Callable[[Any], Reply]] = [
    lambda request: error(request, 35, "ranges over 10000 blocks are not supported on freetier", 400),
    lambda request: error(request, -32001, "Unable to complete request at this time."),
    lambda request: error(request, -32005, "limit exceeded"),
    lambda request: error(request, -32000, "query timeout exceeded"),
    lambda request: Reply(408),
    lambda request: Reply(503),
    lambda request: Reply(500, "no JSON-RPC"),
    lambda request: Reply(413),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_range_that_fails_is_narrowed_until_it_fits(refusal: Callable[[Any], Reply]) -> None:
    true = chain()

    def narrow(request: Any) -> Reply:
        wide = any(width(call) > 3 for call in calls_of(request))
        return refusal(request) if wide else results(request, true.answer)

    with client(narrow) as (rpc, node, _):
        fetcher = BlockFetcher(rpc, "logs", sleep=lambda _: None)
        assert_whole(fetcher.blocks(0, 9), true.blocks[:10])
        assert fetcher.range_size <= 5
        node.requests.clear()
        for first in range(10, 34, 3):
            assert_whole(fetcher.blocks(first, first + 2), true.blocks[first : first + 3])
        assert len(node.requests) <= 20


def test_a_range_that_takes_too_long_is_narrowed() -> None:
    true = chain()

    def slow(request: Any) -> Reply:
        if any(width(call) > 3 for call in calls_of(request)):
            time.sleep(0.6)
        return results(request, true.answer)

    timeout = httpx2.Timeout(0.2, connect=5)
    blocks, fetcher, _ = fetched(slow, "logs", timeout=timeout, attempts=2)
    assert_whole(blocks, true.blocks[:10])
    assert fetcher.range_size < 10


def test_a_range_grows_when_the_node_accepts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.ingest.evm.adaptive.PROBE_AFTER", 5)
    true = chain(12)
    most = [3]

    def capped(request: Any) -> Reply:
        if any(width(call) > most[0] for call in calls_of(request)):
            return error(request, -32005, "query returned more than 10000 results")
        return results(request, true.answer)

    with client(capped) as (rpc, _, _):
        fetcher = BlockFetcher(rpc, "logs", sleep=lambda _: None)
        fetcher.blocks(0, 9)
        assert fetcher.range_size <= 5
        most[0] = 1000
        for _ in range(15):
            fetcher.blocks(0, fetcher.range_size - 1)
        assert fetcher.range_size > 5


def test_an_unavailable_node_does_not_narrow_the_range() -> None:
    with client(lambda request: Reply(503)) as (rpc, node, _):
        fetcher = BlockFetcher(rpc, "logs", sleep=lambda _: None)
        with pytest.raises(NodeUnavailable, match="HTTP 503"):
            fetcher.blocks(0, 9)
        assert fetcher.range_size == 10
        assert len(node.requests) < 25


def test_missing_new_blocks_do_not_narrow_the_range() -> None:
    true = chain(10)

    def behind(request: Any) -> Reply:
        if any(width(call) for call in calls_of(request)):
            return error(request, -32602, "block range extends beyond current head block")
        return results(request, true.answer)

    with client(behind) as (rpc, _, _):
        fetcher = BlockFetcher(rpc, "logs", sleep=lambda _: None)
        assert len(fetcher.blocks(0, 9)) == 10  # by receipts
        assert fetcher.range_size == 10


def test_a_busy_node_does_not_narrow_the_range() -> None:
    true, turns = chain(), itertools.count()

    def busy(request: Any) -> Reply:
        limited = next(turns) % 3 != 2
        return error(request, -32000, "method call count limit exceeded") if limited else results(request, true.answer)

    blocks, fetcher, _ = fetched(busy, "logs")
    assert_whole(blocks, true.blocks[:10])
    assert fetcher.range_size >= 10


@pytest.mark.parametrize("words", ["response size exceeded", "eth_getLogs is not supported without an address filter"])
def test_receipts_are_used_if_logs_of_a_single_block_fail(words: str) -> None:
    true = chain()

    def answer(method: str, params: list[Any]) -> Any:
        return CallError(-32005, words) if method == "eth_getLogs" else true.answer(method, params)

    blocks, _, _ = fetched(lambda request: results(request, answer), "logs")
    assert_whole(blocks, true.blocks[:10])


# Incomplete blocks.


def lossy(true: FakeChain, methods: Sequence[str], left_out: int = 1, times: float = float("inf")) -> BlockResponse:
    """A node whose first responses to these methods lack the last logs of each block."""
    asked = itertools.count()

    def answer(method: str, params: list[Any]) -> Any:
        found = true.answer(method, params)
        if method not in methods or next(asked) >= times:
            return found
        if method == "eth_getBlockReceipts":
            return [{**receipt, "logs": receipt["logs"][:-left_out]} for receipt in found]
        lost = {id(log) for block in true.blocks for log in block.logs[-left_out:]}
        return [log for log in found if id(log) not in lost]

    return answer


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lost", ["eth_getLogs", "eth_getBlockReceipts"])
def test_logs_missing_from_one_method_come_from_the_other(method: Method, lost: str) -> None:
    true = chain()
    answer = lossy(true, [lost])
    blocks, fetcher, _ = fetched(lambda request: results(request, answer), method)
    assert_whole(blocks, true.blocks[:10])
    assert (fetcher.incomplete > 0) is ((method == "logs") is (lost == "eth_getLogs"))


@pytest.mark.parametrize("method", METHODS)
def test_late_logs_are_requested_again(method: Method) -> None:
    true = chain()
    answer = lossy(true, ["eth_getLogs", "eth_getBlockReceipts"], times=8)
    with client(lambda request: results(request, answer)) as (rpc, _, _):
        waits: list[float] = []
        blocks = BlockFetcher(rpc, method, sleep=waits.append).blocks(5, 8)
    assert_whole(blocks, true.blocks[5:9])
    assert set(waits) <= {RETRY_PAUSE_S}


@pytest.mark.parametrize("method", METHODS)
def test_an_always_incomplete_block_is_an_error(method: Method) -> None:
    true = chain()
    bad = next(block for block in true.blocks if len(block.logs) > 2)
    answer = lossy(true, ["eth_getLogs", "eth_getBlockReceipts"])

    def one_bad(name: str, params: list[Any]) -> Any:
        at_bad = params[0] == hex(bad.number) if name != "eth_getLogs" else True
        return (answer if at_bad else true.answer)(name, params)

    with pytest.raises(BlockIncomplete, match=rf"block {bad.number} incomplete: .*--rpc"):
        fetched(lambda request: results(request, one_bad), method, bad.number, bad.number)


def test_duplicate_unordered_logs_are_deduplicated_and_sorted() -> None:
    true, rng = chain(), random.Random(2)

    def answer(method: str, params: list[Any]) -> Any:
        found = true.answer(method, params)
        if method == "eth_getLogs":
            found = found * 2
            rng.shuffle(found)
        if method == "eth_getBlockReceipts":
            found = [{**receipt, "logs": receipt["logs"][::-1] * 2} for receipt in found[::-1]]
        return found

    for method in METHODS:
        blocks, _, _ = fetched(lambda request: results(request, answer), method)
        assert_whole(blocks, true.blocks[:10])


@pytest.mark.parametrize("whole_batch", [False, True])
def test_logs_are_used_if_receipts_of_a_block_always_fail(whole_batch: bool) -> None:
    true, refused = chain(), CallError(-32000, "receipts length mismatch: 1 vs 0")

    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts" and (whole_batch or params == [hex(5)]):
            return refused
        return true.answer(method, params)

    blocks, _, node = fetched(lambda request: results(request, answer))
    assert_whole(blocks, true.blocks[:10])
    asked = [call["params"][0] for request in node.requests for call in calls_of(request) if width(call)]
    assert whole_batch or asked == [{"fromBlock": hex(5), "toBlock": hex(5)}]


def test_a_block_that_both_methods_reject_is_named() -> None:
    true = chain()

    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts" and params == [hex(5)]:
            return CallError(-32000, "receipts length mismatch: 1 vs 0")
        if method == "eth_getLogs" and int(params[0]["fromBlock"], 16) <= 5 <= int(params[0]["toBlock"], 16):
            return CallError(-32000, "no logs here")
        return true.answer(method, params)

    with pytest.raises(BlockIncomplete, match=r"block 5 incomplete: .*(no logs here|receipts length mismatch).*--rpc"):
        fetched(lambda request: results(request, answer))


def without_state_syncs(true: FakeChain, methods: Sequence[str]) -> BlockResponse:
    """A node that omits the logs of state syncs from these methods."""

    def answer(method: str, params: list[Any]) -> Any:
        found = true.answer(method, params)
        if method not in methods:
            return found
        system = {block.transactions[-1]["hash"] for block in true.blocks if block.synced}
        if method == "eth_getBlockByNumber" and found is not None:
            listed = [
                each
                for each in found["transactions"]
                if (each if isinstance(each, str) else each["hash"]) not in system
            ]
            return {**found, "transactions": listed}
        if method == "eth_getTransactionReceipt":
            return None
        return [each for each in found if each["transactionHash"] not in system]

    return answer


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("lacks", [["eth_getLogs"], ["eth_getBlockReceipts"], []])
def test_state_syncs_are_complete_by_every_method(method: Method, listed: bool, lacks: list[str]) -> None:
    """On Polygon both methods give the same blocks.

    One method and the list of transactions may omit anything.
    """
    true = chain(130, sprint=SPRINT, chain_id=137, restarted=listed)
    assert sum(block.synced for block in true.blocks) >= 4
    methods = [*lacks, *([] if listed else ["eth_getBlockByNumber", "eth_getTransactionReceipt"])]
    answer = without_state_syncs(true, methods)
    blocks, _, _ = fetched(lambda request: results(request, answer), method, 0, 129, SPRINT)
    assert_whole(blocks, true.blocks)


def test_a_state_sync_without_logs_is_named() -> None:
    true = chain(130, sprint=SPRINT)
    block = next(block for block in true.blocks if block.synced)
    answer = without_state_syncs(true, ["eth_getLogs", "eth_getBlockReceipts", "eth_getTransactionReceipt"])
    reason = f"block {block.number} incomplete: the logs of its state-sync transaction 0x"
    with pytest.raises(BlockIncomplete, match=reason):
        fetched(lambda request: results(request, answer), None, block.number, block.number, SPRINT)


@pytest.mark.parametrize("index", ["0xzz", "", "-0x1"])
def test_garbage_in_the_receipt_of_a_state_sync_is_a_node_error(index: str) -> None:
    true = chain(130, seed=3, sprint=SPRINT)
    lossy_answer = without_state_syncs(true, ["eth_getLogs", "eth_getBlockByNumber"])

    def answer(method: str, params: list[Any]) -> Any:
        if method == "eth_getBlockReceipts":
            return CallError(-32601, "no such method")
        found = lossy_answer(method, params)
        if method == "eth_getTransactionReceipt" and found is not None:
            return {**found, "logs": [{**log, "logIndex": index} for log in found["logs"]]}
        return found

    with pytest.raises(BlockIncomplete, match="has an unexpected form"):
        fetched(lambda request: results(request, answer), None, 0, 129, SPRINT)


def test_a_state_sync_is_found_without_the_method_of_receipts() -> None:
    """The state sync is neither listed nor in eth_getLogs.

    Its derived transaction has a receipt.
    """
    true = chain(130, sprint=SPRINT)
    lossy_answer = without_state_syncs(true, ["eth_getLogs", "eth_getBlockByNumber"])

    def answer(method: str, params: list[Any]) -> Any:
        return CallError(-32601, "no such method") if method == "eth_getBlockReceipts" else lossy_answer(method, params)

    blocks, _, _ = fetched(lambda request: results(request, answer), None, 0, 129, SPRINT)
    assert_whole(blocks, true.blocks)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("member", "rubbish"),
    [
        ("logIndex", "0xzz"),
        ("logIndex", None),
        ("transactionIndex", ""),
        ("transactionIndex", "-0x1"),
        ("transactionIndex", "0x" + "f" * 30),
        ("topics", ["0x" + "0" * 64] * 5),
        ("topics", ["0xnone"]),
        ("topics", ["0x12"]),
        ("address", "0x12"),
        ("data", "0xzz"),
        ("data", "0x0"),
        ("blockNumber", "zero"),
    ],
)
def test_the_other_method_is_used_if_one_returns_garbage(method: Method, member: str, rubbish: Any) -> None:
    true = chain()
    name = {"receipts": "eth_getBlockReceipts", "logs": "eth_getLogs"}[method]

    def spoilt(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**log, member: rubbish} for log in logs]

    def answer(called: str, params: list[Any]) -> Any:
        found = true.answer(called, params)
        if called != name:
            return found
        return spoilt(found) if method == "logs" else [{**each, "logs": spoilt(each["logs"])} for each in found]

    assert_whole(fetched(lambda request: results(request, answer), method)[0], true.blocks[:10])


def in_capitals(answer: Any) -> Any:
    """Convert the bytes of a response to upper case, but not quantities, which are shorter."""
    if isinstance(answer, dict):
        return {name: in_capitals(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [in_capitals(value) for value in answer]
    return "0x" + answer[2:].upper() if isinstance(answer, str) and len(answer) >= len(NOBODY) else answer


@pytest.mark.parametrize("method", METHODS)
def test_hashes_are_converted_to_lower_case(method: Method) -> None:
    true = chain(sprint=SPRINT)

    behave = partial(results, result_of=lambda called, params: in_capitals(true.answer(called, params)))
    assert_whole(fetched(behave, method, 0, 20, SPRINT)[0], true.blocks[:21])


@pytest.mark.parametrize(
    ("member", "rubbish"),
    [
        ("logsBloom", "0xzz"),
        ("hash", "0xzz"),
        ("parentHash", "0x12"),
        ("timestamp", "soon"),
        ("timestamp", "0x" + "f" * 15),
        ("number", ""),
        ("number", "-0x1"),
        ("number", "0x" + "f" * 30),
        ("number", "0x5"),
    ],
)
def test_garbage_in_a_header_is_a_node_error(member: str, rubbish: str) -> None:
    true = chain()

    def answer(called: str, params: list[Any]) -> Any:
        found = true.answer(called, params)
        return {**found, member: rubbish} if called == "eth_getBlockByNumber" else found

    with pytest.raises(BlockIncomplete, match="has an unexpected form"):
        fetched(lambda request: results(request, answer))


@pytest.mark.parametrize("quantity", ["", "0x", "seven", "-0x1"])
def test_garbage_in_place_of_a_number_is_a_node_error(quantity: str) -> None:
    def answer(called: str, params: list[Any]) -> Any:
        header = {"number": quantity, "hash": WORD, "parentHash": WORD, "timestamp": "0x1"}
        return quantity if called == "eth_chainId" else header

    with client(lambda request: results(request, answer)) as (rpc, _, _):
        fetcher = BlockFetcher(rpc)
        with pytest.raises(NodeCallFailed, match="has an unexpected form"):
            fetcher.chain_id()
        with pytest.raises(NodeCallFailed, match="has an unexpected form"):
            fetcher.header("latest")


def test_a_node_without_filters_is_believed() -> None:
    true = chain()

    def answer(called: str, params: list[Any]) -> Any:
        found = true.answer(called, params)
        if called == "eth_getBlockByNumber":
            return {**found, "logsBloom": None}
        return [{**each, "logsBloom": None} for each in found] if called == "eth_getBlockReceipts" else found

    for method in METHODS:
        assert_whole(fetched(lambda request: results(request, answer), method)[0], true.blocks[:10])


# Mismatching blocks.


def torn(true: FakeChain, other: FakeChain) -> BlockResponse:
    """A node that returns the block of one fork, and logs and receipts of another."""
    return lambda method, params: (true if method == "eth_getBlockByNumber" else other).answer(method, params)


def late(true: FakeChain) -> BlockResponse:
    """A node that has the blocks, but not yet their logs."""
    return lambda method, params: [] if method != "eth_getBlockByNumber" else true.answer(method, params)


def absent(method: str, params: list[Any]) -> Any:
    return [] if method == "eth_getLogs" else None


@pytest.mark.parametrize("bad", ["torn", "late", "absent"])
@pytest.mark.parametrize("method", METHODS)
def test_mismatching_halves_of_a_block_are_fetched_again(bad: str, method: Method) -> None:
    true, other = chain(), chain(seed=2)
    number = next(block.number for block in true.blocks if block.logs and other.blocks[block.number].logs)
    answer = {"torn": torn(true, other), "late": late(true), "absent": absent}[bad]
    turns = itertools.count()
    blocks, _, _ = fetched(
        lambda request: results(request, answer if next(turns) < 4 else true.answer), method, number, number
    )
    assert_whole(blocks, [true.blocks[number]])


def test_permanently_mismatching_halves_are_an_error() -> None:
    true, other = chain(), chain(seed=2)
    number = next(block.number for block in true.blocks if block.logs and other.blocks[block.number].logs)
    with pytest.raises(NodeBehind, match=f"does not have the blocks {number} to {number} yet, or is reorganising them"):
        fetched(lambda request: results(request, torn(true, other)), None, number, number)


def test_blocks_of_two_forks_are_fetched_again() -> None:
    true, turns = new_chain(20), itertools.count()

    def changing(request: Any) -> Reply:
        if next(turns) == 1:
            true.reorganise(14)
        return results(request, true.answer)

    with client(changing) as (rpc, _, _):
        blocks = BlockFetcher(rpc, "receipts", sleep=lambda _: None).blocks(0, 19)
    assert_whole(blocks, true.blocks[:20])


def test_an_answer_to_another_question_is_an_error() -> None:
    with client(lambda request: results(request, lambda *_: 5)) as (rpc, _, _), pytest.raises(NodeCallFailed):
        BlockFetcher(rpc).chain_id()
