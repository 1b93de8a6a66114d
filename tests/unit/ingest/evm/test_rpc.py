"""The JSON-RPC client against an HTTP server that does what providers do; and blocks fetched through it."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NodeLacksMethod, NodeRefusesSize, NodeUnavailable
from headwater.ingest.evm.fetch import Fetcher
from headwater.ingest.evm.rpc import Rpc
from headwater.ingest.jsonrpc import PATIENCE_S, Pace
from tests.support.node import CUT, Behave, Node, Reply, calls_of, error, results

KEY = "abcdef0123456789"


@contextmanager
def client(behave: Behave, **options: Any) -> Iterator[tuple[Rpc, Node, list[float]]]:
    """A client that writes its waits down in place of waiting."""
    waits: list[float] = []
    with Node(behave) as node:
        rpc = Rpc(f"{node.address}/v2/{KEY}?token={KEY[::-1]}", Event(), sleep=waits.append, **options)
        try:
            yield rpc, node, waits
        finally:
            rpc.close()


def echo(request: Any) -> Reply:
    return results(request, lambda method, params: [method, *params])


def first(replies: list[Reply | str], then: Behave = echo) -> Behave:
    """These answers, then those."""
    left = iter(replies)
    return lambda request: next(left, None) or then(request)


def test_results_come_in_the_order_of_the_calls() -> None:
    def backwards(request: Any) -> Reply:
        reply = echo(request)
        return reply._replace(body=reply.body[::-1])

    with client(backwards) as (rpc, _, _):
        assert [bytes(raw) for raw in rpc.batch([("a", [1]), ("b", [])])] == [b'["a", 1]', b'["b"]']


@pytest.mark.parametrize(
    "fault",
    [
        Reply(429), Reply(503), Reply(200, "no JSON-RPC"), CUT,
        Reply(200, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32005, "message": "rate limit exceeded"}}),
        Reply(200, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "header not found"}}),
    ],
)  # fmt: skip
def test_what_may_go_better_is_sent_again(fault: Reply | str) -> None:
    with client(first([fault, fault])) as (rpc, node, waits):
        assert bytes(rpc.call("a")) == b'["a"]'
    assert len(node.requests) == 3
    assert rpc.retries == len(waits) == 2


def test_only_what_has_no_answer_is_asked_again() -> None:
    def half(request: Any) -> Reply:
        reply = echo(request)
        return reply._replace(body=reply.body[:1]) if isinstance(request, list) else reply

    with client(half) as (rpc, node, _):
        rpc.batch([("a", []), ("b", [])])
    assert [[call["method"] for call in calls_of(request)] for request in node.requests] == [["a", "b"], ["b"]]


def test_the_node_says_how_long_to_wait() -> None:
    with client(first([Reply(429, headers=(("Retry-After", "7"),))])) as (rpc, _, waits):
        rpc.call("a")
    assert waits[0] >= 7


def test_a_long_wait_is_left_to_the_loop() -> None:
    with (
        client(first([Reply(429, headers=(("Retry-After", "90"),))])) as (rpc, node, waits),
        pytest.raises(NodeUnavailable) as caught,
    ):
        rpc.call("a")
    assert (caught.value.retry_after_s, waits, len(node.requests)) == (90, [], 1)


def test_a_date_says_how_long_to_wait() -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + PATIENCE_S - 2))
    with client(first([Reply(503, headers=(("Retry-After", date),))])) as (rpc, _, waits):
        rpc.call("a")
    assert PATIENCE_S - 5 < waits[0] < PATIENCE_S


def test_a_batch_that_is_refused_is_parted() -> None:
    def at_most_three(request: Any) -> Reply:
        return error(request, -32600, "batch too large", 400) if len(calls_of(request)) > 3 else echo(request)

    with client(at_most_three) as (rpc, node, _):
        assert len(rpc.batch([("a", [number]) for number in range(40)])) == 40
        node.requests.clear()
        rpc.batch([("a", [number]) for number in range(4)])
    assert [len(calls_of(request)) for request in node.requests] == [2, 2]


def test_a_node_without_batches_gets_single_calls() -> None:
    def no_batch(request: Any) -> Reply:
        return (
            error(request, -32600, "batch requests are not supported") if isinstance(request, list) else echo(request)
        )

    with client(no_batch) as (rpc, _, _):
        assert len(rpc.batch([("a", []), ("b", [])])) == 2


@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (lambda request: error(request, -32601, "the method x does not exist"), NodeLacksMethod),
        (lambda request: error(request, -32005, "query returned more than 10000 results"), NodeRefusesSize),
        (lambda request: error(request, -32602, "exceed maximum block range: 2000"), NodeRefusesSize),
        (lambda request: Reply(413), NodeRefusesSize),
        (lambda request: Reply(401), NodeUnavailable),
    ],
)
def test_what_is_refused_for_good_is_not_sent_again(reply: Behave, raised: type[NodeUnavailable]) -> None:
    with client(reply) as (rpc, node, _), pytest.raises(raised):
        rpc.call("a")
    assert len(node.requests) == 1


@pytest.mark.parametrize(
    "behave",
    [
        lambda _: CUT,
        lambda request: error(request, -32000, f"project {KEY} of /v2/{KEY}?token={KEY[::-1]} is over its quota"),
        lambda request: error(request, -32601, f"{KEY} has no such method"),
        lambda request: Reply(403, {"no": KEY}),
    ],
)
def test_no_error_names_the_key(behave: Behave) -> None:
    with client(behave) as (rpc, _, _), pytest.raises(NodeUnavailable) as caught:
        rpc.call("a")
    told = f"{caught.value!r} {caught.value.detail} {caught.value.__cause__!r}"
    assert KEY not in told
    assert KEY[::-1] not in told


@given(st.floats(0.5, 1000), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_calls_are_spaced_out(rate: float, batches: list[int]) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pace = Pace(rate, lambda: now[0], sleep)
    for calls in batches:
        pace.wait(calls)
    assert now[0] == pytest.approx(sum(batches[:-1]) / rate)


def test_a_limited_rate_makes_small_batches() -> None:
    with client(echo, rate=20) as (rpc, node, _):
        rpc.batch([("a", []) for _ in range(12)])
    assert [len(calls_of(request)) for request in node.requests] == [5, 5, 2]


def test_closing_ends_the_waits_of_other_threads() -> None:
    with Node(echo) as node, ThreadPoolExecutor(1) as pool:
        rpc = Rpc(node.address, Event(), rate=0.01)
        rpc.call("a")
        waiting = pool.submit(rpc.call, "b")
        rpc.close()
        with pytest.raises(NodeUnavailable, match="The ingest ends"):
            waiting.result(5)


# Blocks.


def hash_of(number: int, fork: str = "0") -> str:
    return f"0x{fork}{number:063x}"


def log(number: int, index: int, fork: str = "0") -> dict[str, Any]:
    block = {"blockHash": hash_of(number, fork), "blockNumber": hex(number)}
    return {"address": "0xaa", "topics": [], "data": "0x", **block,
            "transactionHash": f"0x{number}", "transactionIndex": "0x0", "logIndex": hex(index)}  # fmt: skip


def node_of(method: str, params: list[Any]) -> Any:
    """A chain with one transaction with two logs in each block."""
    if method == "eth_getLogs":
        first_number, last = int(params[0]["fromBlock"], 16), int(params[0]["toBlock"], 16)
        return [log(number, index) for number in range(first_number, last + 1) for index in (0, 1)]
    number = int(params[0], 16)
    if method == "eth_getBlockReceipts":
        return [{"transactionHash": f"0x{number}", "blockHash": hash_of(number), "from": "0xf", "to": None,
                 "logs": [log(number, 0), log(number, 1)]}]  # fmt: skip
    transaction = {"hash": f"0x{number}", "from": "0xf", "to": None} if params[1] else f"0x{number}"
    return {"number": hex(number), "hash": hash_of(number), "parentHash": hash_of(number - 1), "timestamp": hex(number),
            "logsBloom": "0x1", "transactions": [transaction]}  # fmt: skip


def no_receipts(request: Any) -> Reply:
    if any(call["method"] == "eth_getBlockReceipts" for call in calls_of(request)):
        return error(request, -32601, "the method eth_getBlockReceipts does not exist")
    return results(request, node_of)


@pytest.mark.parametrize("behave", [lambda request: results(request, node_of), no_receipts])
def test_both_ways_give_the_same_blocks(behave: Behave) -> None:
    with client(behave) as (rpc, _, _):
        blocks = Fetcher(rpc).blocks(5, 9)
    assert [(block.number, block.hash, block.timestamp) for block in blocks] == [
        (n, hash_of(n), n) for n in range(5, 10)
    ]
    assert [[int(each.log_index, 16) for each in block.logs] for block in blocks] == [[0, 1]] * 5
    assert [block.parties for block in blocks] == [{f"0x{n}": ("0xf", None)} for n in range(5, 10)]


def test_a_range_that_is_too_large_is_parted_and_grows_again() -> None:
    def narrow(request: Any) -> Reply:
        (call, *_) = calls_of(request)
        if call["method"] == "eth_getLogs":
            asked = call["params"][0]
            if int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) >= 4:
                return error(request, -32005, "query returned more than 10000 results")
        return results(request, node_of)

    with client(narrow) as (rpc, _, _):
        fetcher = Fetcher(rpc, "logs")
        assert len(fetcher.blocks(0, 9)) == 10
        assert fetcher.span <= 6
        before = fetcher.span
        for _ in range(5):
            assert len(fetcher.blocks(0, fetcher.span - 1)) >= 1
        assert fetcher.span >= min(before, 4)


def test_a_block_that_is_refused_alone_is_an_error() -> None:
    def none(request: Any) -> Reply:
        return error(request, -32005, "response size exceeded")

    with client(none) as (rpc, _, _), pytest.raises(NodeUnavailable, match="the logs of block 3 alone"):
        Fetcher(rpc, "logs").blocks(3, 3)


def torn_node(method: str, params: list[Any]) -> Any:
    """Blocks of one fork, logs and receipts of another."""
    if method == "eth_getLogs":
        return [log(7, 0, "f")]
    if method == "eth_getBlockReceipts":
        return [{"transactionHash": "0x7", "blockHash": hash_of(7, "f"), "from": "0xf", "to": None, "logs": []}]
    return node_of(method, params)


def late_node(method: str, params: list[Any]) -> Any:
    """The block is there, its logs are not yet: its bloom filter has some."""
    return [] if method in ("eth_getLogs", "eth_getBlockReceipts") else node_of(method, params)


def absent_node(method: str, params: list[Any]) -> Any:
    return [] if method == "eth_getLogs" else None


@pytest.mark.parametrize("bad", [torn_node, late_node, absent_node])
@pytest.mark.parametrize("way", ["receipts", "logs"])
def test_halves_of_a_block_that_do_not_fit_are_fetched_again(bad: Any, way: Any) -> None:
    turns = itertools.count()
    calls = {"receipts": 1, "logs": 2}[way]
    with client(lambda request: results(request, bad if next(turns) < 2 * calls else node_of)) as (rpc, _, _):
        waits: list[float] = []
        (block,) = Fetcher(rpc, way, waits.append).blocks(7, 7)
    assert (block.hash, len(block.logs), len(waits)) == (hash_of(7), 2, 2)


def test_halves_that_never_fit_are_an_error() -> None:
    with client(lambda request: results(request, torn_node)) as (rpc, _, _):
        fetcher = Fetcher(rpc, sleep=lambda _: None)
        with pytest.raises(NodeUnavailable, match="does not have the blocks 7 to 7 yet, or reorganises them"):
            fetcher.blocks(7, 7)


def test_an_answer_to_another_question_is_an_error() -> None:
    with client(lambda request: results(request, lambda *_: 5)) as (rpc, _, _), pytest.raises(NodeUnavailable):
        Fetcher(rpc).chain_id()
