"""The JSON-RPC client with an HTTP server that behaves like providers."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NodeCallFailed, NodeCallTooLarge, NodeError, NodeMethodMissing, NodeUnavailable
from headwater.ingest.evm.rpc_client import CALLS_AT_ONCE, RpcClient
from headwater.ingest.jsonrpc import RETRY_DEADLINE_S, RateLimiter
from tests.support.node import CUT, Behave, CallError, Node, Reply, calls_of, error, results

KEY = "abcdef0123456789"


@contextmanager
def client(behave: Behave, **options: Any) -> Iterator[tuple[RpcClient, Node, list[float]]]:
    """A client that records its waits instead of waiting."""
    waits: list[float] = []
    with Node(behave) as node:
        rpc = RpcClient(f"{node.address}/v2/{KEY}?token={KEY[::-1]}", Event(), sleep=waits.append, **options)
        try:
            yield rpc, node, waits
        finally:
            rpc.close()


def echo(request: Any) -> Reply:
    return results(request, lambda method, params: [method, *params])


def first(replies: list[Reply | str], then: Behave = echo) -> Behave:
    """Return a behaviour that gives these replies, and then the others."""
    left = iter(replies)
    return lambda request: next(left, None) or then(request)


def test_results_come_in_the_order_of_the_calls() -> None:
    def backwards(request: Any) -> Reply:
        reply = echo(request)
        return reply._replace(body=reply.body[::-1])

    with client(backwards) as (rpc, _, _):
        assert [bytes(raw) for raw in rpc.batch([("a", [1]), ("b", [])])] == [b'["a", 1]', b'["b"]']


def test_ids_may_be_returned_as_strings() -> None:
    def texts(request: Any) -> Reply:
        reply = echo(request)
        return reply._replace(body=[{**each, "id": str(each["id"])} for each in reply.body])

    with client(texts) as (rpc, node, _):
        assert [bytes(raw) for raw in rpc.batch([("a", [1]), ("b", [])])] == [b'["a", 1]', b'["b"]']
    assert len(node.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Reply(429), Reply(503), Reply(408), Reply(200, "no JSON-RPC"), CUT,
        Reply(200, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "call count limit exceeded"}}),
        Reply(200, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32005, "message": "rate limit exceeded"}}),
        Reply(200, {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "header not found"}}),
    ],
)  # fmt: skip
def test_retriable_errors_are_retried(fault: Reply | str) -> None:
    with client(first([fault, fault])) as (rpc, node, waits):
        assert bytes(rpc.call("a")) == b'["a"]'
    assert len(node.requests) == 3
    assert rpc.retries == len(waits) == 2


def test_only_calls_without_a_result_are_retried() -> None:
    def half(request: Any) -> Reply:
        reply = echo(request)
        return reply._replace(body=reply.body[:1]) if isinstance(request, list) else reply

    with client(half) as (rpc, node, _):
        rpc.batch([("a", []), ("b", [])])
    assert [[call["method"] for call in calls_of(request)] for request in node.requests] == [["a", "b"], ["b"]]


def test_retry_after_in_seconds() -> None:
    with client(first([Reply(429, headers=(("Retry-After", "7"),))])) as (rpc, _, waits):
        rpc.call("a")
    assert waits[0] >= 7


def test_a_long_wait_is_left_to_the_loop() -> None:
    with (
        client(first([Reply(429, headers=(("Retry-After", "90"),))])) as (rpc, node, waits),
        pytest.raises(NodeError) as caught,
    ):
        rpc.call("a")
    assert (caught.value.retry_after_s, waits, len(node.requests)) == (90, [], 1)


@pytest.mark.parametrize("text", ["9" * 400, "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_retry_after_is_limited_to_an_hour(text: str) -> None:
    with (
        client(first([Reply(429, headers=(("Retry-After", text),))])) as (rpc, _, _),
        pytest.raises(NodeError) as caught,
    ):
        rpc.call("a")
    assert caught.value.retry_after_s == 3600


@pytest.mark.parametrize("member", [b'"result":%b', b'"error":{"code":1,"data":%b}'])
def test_a_response_that_is_nested_too_deeply_is_a_failure_of_the_node(member: bytes) -> None:
    reply = Reply(200, b'{"jsonrpc":"2.0","id":0,%b}' % (member % (b"[" * 10_000 + b"]" * 10_000)))
    with client(lambda _: reply, attempts=1) as (rpc, _, _), pytest.raises(NodeUnavailable, match="not JSON-RPC"):
        rpc.call("a")


def test_retry_after_as_a_date() -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + RETRY_DEADLINE_S - 2))
    with client(first([Reply(503, headers=(("Retry-After", date),))])) as (rpc, _, waits):
        rpc.call("a")
    assert RETRY_DEADLINE_S - 5 < waits[0] < RETRY_DEADLINE_S


def sizes(node: Node) -> list[int]:
    """Return the number of calls of each request."""
    return [len(calls_of(request)) for request in node.requests]


BATCH_REFUSALS: list[Behave] = [
    lambda request: error(request, -32600, "batch too large", 400),
    lambda request: error(request, -32600, "batch too large"),
    lambda request: Reply(413),
    lambda request: results(request, lambda *_: CallError(31, "Batch of more than 3 requests are not allowed")),
    lambda request: results(request, lambda *_: CallError(-32003, "response too large")),
    lambda request: Reply(503),
    lambda request: Reply(408),
]


@pytest.mark.parametrize("refusal", BATCH_REFUSALS)
def test_a_rejected_batch_is_split(refusal: Behave) -> None:
    with client(lambda request: refusal(request) if len(calls_of(request)) > 3 else echo(request)) as (rpc, node, _):
        assert len(rpc.batch([("a", [number]) for number in range(40)])) == 40
        assert rpc.batch_size <= 4
        node.requests.clear()
        rpc.batch([("a", [number]) for number in range(3)])
    assert sum(sizes(node)) == 3


@pytest.mark.parametrize("refusal", [
    lambda request: Reply(503),
    lambda request: error(request, -32000, "request timed out"),
    lambda request: results(request, lambda *_: CallError(-32000, "execution timeout")),
])  # fmt: skip
def test_batches_grow_again(refusal: Behave) -> None:
    capped = [True]

    def behave(request: Any) -> Reply | str | None:
        return refusal(request) if capped[0] and len(calls_of(request)) > 1 else echo(request)

    with client(behave) as (rpc, node, _):
        rpc.batch([("a", [number]) for number in range(20)])
        assert rpc.batch_size <= 2
        capped[0] = False
        for _ in range(15):
            rpc.batch([("a", [number]) for number in range(20)])
        assert rpc.batch_size == CALLS_AT_ONCE
        node.requests.clear()
        rpc.batch([("a", [number]) for number in range(20)])
    assert sizes(node) == [20]


@pytest.mark.parametrize("words", ["batch requests are not supported", "Batch requests are not supported"])
def test_a_node_without_batches_gets_single_calls(words: str) -> None:
    def no_batch(request: Any) -> Reply:
        return error(request, -32600, words) if isinstance(request, list) else echo(request)

    with client(no_batch) as (rpc, node, _):
        assert len(rpc.batch([("a", []), ("b", [])])) == 2
        assert len(rpc.batch([("a", []), ("b", [])])) == 2
    assert sizes(node) == [2, 1, 1, 1, 1]


def test_an_error_for_a_whole_batch_is_assigned_to_single_calls() -> None:
    def no_b(request: Any) -> Reply:
        if any(call["method"] == "b" for call in calls_of(request)):
            return error(request, -32601, "the method b does not exist")
        return echo(request)

    with client(no_b) as (rpc, _, _):
        first_, second = rpc.outcomes([("a", []), ("b", [])])
        assert isinstance(first_, msgspec.Raw)
        assert isinstance(second, NodeMethodMissing)
        assert rpc.batch_size == CALLS_AT_ONCE


def test_only_the_call_with_an_unknown_error_has_no_result() -> None:
    def answer(method: str, params: list[Any]) -> Any:
        return CallError(-32000, "receipts length mismatch: 1 vs 0") if params == [2] else params

    with client(lambda request: results(request, answer)) as (rpc, node, waits):
        outcomes = rpc.outcomes([("a", [number]) for number in range(4)])
    assert [isinstance(outcome, NodeCallFailed) for outcome in outcomes] == [False, False, True, False]
    assert (sizes(node), len(waits)) == ([4, 1], 1)


def test_retries_continue_while_some_calls_succeed() -> None:
    turns = itertools.count()

    def limited(request: Any) -> Reply:
        answer: Any = lambda *_: CallError(-32005, "rate limit exceeded")  # noqa: E731
        reply = results(request, answer)
        if next(turns) % 2 and isinstance(reply.body, list):
            reply.body[0] = echo(request).body[0]
        return reply if isinstance(request, list) else echo(request)

    with client(limited) as (rpc, _, _):
        assert len(rpc.batch([("a", [number]) for number in range(12)])) == 12


@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (lambda request: error(request, -32601, "the method x does not exist"), NodeMethodMissing),
        (lambda request: error(request, -32005, "query returned more than 10000 results"), NodeCallTooLarge),
        (lambda request: error(request, -32602, "exceed maximum block range: 2000"), NodeCallTooLarge),
        (
            lambda request: error(request, 35, "ranges over 10000 blocks are not supported on freetier", 400),
            NodeCallTooLarge,
        ),
        (lambda request: Reply(413), NodeCallTooLarge),
        (lambda request: Reply(401), NodeUnavailable),
        (lambda request: Reply(404), NodeUnavailable),
    ],
)
def test_permanent_errors_are_not_retried(reply: Behave, raised: type[NodeError]) -> None:
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
    with client(behave) as (rpc, _, _), pytest.raises(NodeError) as caught:
        rpc.call("a")
    text = f"{caught.value!r} {caught.value.detail} {caught.value.__cause__!r}"
    assert KEY not in text
    assert KEY[::-1] not in text


@given(st.floats(0.5, 1000), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_calls_are_spaced_out(rate: float, batches: list[int]) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pace = RateLimiter(rate, lambda: now[0], sleep)
    for calls in batches:
        pace.wait(calls)
    assert now[0] == pytest.approx(sum(batches[:-1]) / rate)


def test_a_limited_rate_makes_small_batches() -> None:
    with client(echo, rate=20) as (rpc, node, _):
        rpc.batch([("a", []) for _ in range(12)])
    assert [len(calls_of(request)) for request in node.requests] == [5, 5, 2]


def test_close_ends_the_waits_of_other_threads() -> None:
    with Node(echo) as node, ThreadPoolExecutor(1) as pool:
        rpc = RpcClient(node.address, Event(), rate=0.01)
        rpc.call("a")
        waiting = pool.submit(rpc.call, "b")
        rpc.close()
        with pytest.raises(NodeUnavailable, match="The ingest is stopping"):
            waiting.result(5)
