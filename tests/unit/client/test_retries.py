"""Requests are sent again after 429, 503 and broken connections, and after nothing else."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from headwater_client import (
    AsyncHeadwater,
    Conflict,
    ConnectionFailed,
    DeployPending,
    Flow,
    Headwater,
    ServerError,
    TimedOut,
    Unavailable,
    v8,
)
from tests.support.example_api import respond as example
from tests.support.ports import free_port
from tests.support.scripted_server import (
    ReceivedRequest,
    ScriptedResponse,
    ScriptedServer,
    json_response,
    problem_response,
)
from tests.unit.client.conftest import KEY

DATASET = {"id": "d", "name": "n", "created_at": "2026-01-02T03:04:05.678Z", "updated_at": "2026-01-02T03:04:05.678Z"}
GONE = ScriptedResponse(closes_at_once=True)
BROKEN = ScriptedResponse(200, [b'{"id"'], breaks=True)
BUSY = problem_response(503, "overloaded", headers={"Retry-After": "0"})
LIMITED = problem_response(429, "rate-limited", headers={"Retry-After": "0"})
PENDING = problem_response(503, "deploy-pending", headers={"Retry-After": "0"})


def then(*first: ScriptedResponse, last: ScriptedResponse) -> Callable[[ReceivedRequest], ScriptedResponse]:
    """Return a function that responds with each of these once, and then always with `last`."""
    responses: Iterator[ScriptedResponse] = iter(first)
    return lambda request: next(responses, last)


@pytest.mark.parametrize("failure", [GONE, BROKEN, BUSY, LIMITED])
def test_a_request_is_sent_again_with_the_same_key(failure: ScriptedResponse, server: ScriptedServer) -> None:
    server.respond = then(failure, failure, last=json_response(DATASET, 201))
    with Headwater(server.url, KEY) as hw:
        assert hw.datasets.create("n").id == "d"
    assert len(server.requests) == 3
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1
    assert {request.body for request in server.requests} == {b'{"name":"n"}'}


@pytest.mark.parametrize("failure", [GONE, BUSY])
def test_the_asynchronous_client_does_the_same(failure: ScriptedResponse, server: ScriptedServer) -> None:
    async def create() -> str:
        async with AsyncHeadwater(server.url, KEY) as hw:
            return (await hw.datasets.create("n")).id

    server.respond = then(failure, last=json_response(DATASET, 201))
    assert asyncio.run(create()) == "d"
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1


def test_two_calls_have_two_keys(server: ScriptedServer, hw: Headwater) -> None:
    server.respond = lambda request: json_response(DATASET, 201)
    hw.datasets.create("n")
    hw.datasets.create("n")
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 2


def test_the_repeats_end(server: ScriptedServer) -> None:
    server.respond = lambda request: BUSY
    with Headwater(server.url, KEY, retries=2) as hw, pytest.raises(Unavailable):
        hw.me()
    assert len(server.requests) == 3


def test_retry_after_is_waited_for(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    server.respond = then(problem_response(429, "rate-limited", headers={"Retry-After": "17"}), last=example_me())
    with Headwater(server.url, KEY) as hw:
        assert hw.me().owner == "ann"
    assert 17 in slept


def example_me() -> ScriptedResponse:
    return json_response({"owner": "ann", "key_id": "k", "scopes": [], "expires_at": None})


@pytest.mark.parametrize(("status", "kind"), [(409, Conflict), (500, ServerError)])
def test_other_failures_are_final(status: int, kind: type[Exception], server: ScriptedServer, hw: Headwater) -> None:
    server.respond = lambda request: problem_response(status, "x")
    with pytest.raises(kind):
        hw.datasets.create("n")
    assert len(server.requests) == 1


def test_a_timeout_is_final(server: ScriptedServer, hw: Headwater) -> None:
    def late(request: ReceivedRequest) -> ScriptedResponse:
        time.sleep(0.5)
        return example_me()

    server.respond = late
    with pytest.raises(TimedOut, match="did not respond in time"):
        hw.me(timeout=0.1)
    assert len(server.requests) == 1


def test_no_server_listens() -> None:
    with Headwater(f"http://127.0.0.1:{free_port()}", KEY, retries=1) as hw, pytest.raises(ConnectionFailed):
        hw.me()


def test_a_deploy_in_progress_is_waited_for(server: ScriptedServer) -> None:
    server.respond = example
    with Headwater(server.url, KEY, retries=2) as hw:
        flow = hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz")
        pending = iter([PENDING] * 4)
        server.respond = lambda request: next(pending, None) or example(request)
        assert flow.deploy().revision == 1


def test_the_wait_for_a_deploy_uses_up_no_repeats(server: ScriptedServer) -> None:
    server.respond = example
    with Headwater(server.url, KEY, retries=1) as hw:
        flow = hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz")
        responses = iter([PENDING, PENDING, PENDING, BUSY, PENDING])
        server.respond = lambda request: next(responses, None) or example(request)
        assert flow.deploy().revision == 1
        server.respond = then(BUSY, BUSY, last=PENDING)
        with pytest.raises(Unavailable):
            flow.deploy()


def test_the_wait_for_a_deploy_ends_although_repeats_are_left(server: ScriptedServer) -> None:
    server.respond = example
    with Headwater(server.url, KEY) as hw:
        flow = hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz")
        server.respond = lambda request: PENDING
        before = len(server.requests)
        with pytest.raises(DeployPending):
            flow.deploy(wait_s=0)
        assert len(server.requests) == before + 1


def test_a_change_of_a_transform_whose_deploy_is_in_progress_is_repeated(server: ScriptedServer) -> None:
    server.respond = example
    with Headwater(server.url, KEY, retries=2) as hw:
        flow = hw.flows.get("01ke0a2x8rv5c3m7qd9t4jw6hz")
        server.respond = lambda request: PENDING
        before = len(server.requests)
        with pytest.raises(DeployPending):
            flow.change_transform(
                flow.config.pipeline.transforms[0].uid, v8("function process(record) { return record; }")
            )
        assert len(server.requests) == before + 3


def test_a_streamed_body_is_sent_again_only_when_it_can_be(server: ScriptedServer, flow: Flow) -> None:
    count = json_response({"count": 2, "version": 1})
    server.respond = then(BUSY, last=count)
    assert flow.filters["token"].replace(["a", "b"]).count == 2
    assert [request.json() for request in server.requests[-2:]] == [{"values": ["a", "b"]}] * 2
    server.respond = then(BUSY, last=count)
    with pytest.raises(Unavailable):
        flow.filters["token"].replace(value for value in "ab")
