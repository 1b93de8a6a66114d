"""Tails follow records over connections that break and end."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from headwater_client import AsyncHeadwater, Flow, Headwater, Unauthenticated
from headwater_client.models.records import Skipped
from tests.support.scripted_server import ReceivedRequest, ScriptedResponse, ScriptedServer, problem_response
from tests.unit.client.conftest import KEY

ENDED = {"reason": "deployment_ended", "detail": "The pipeline was torn down."}


def event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def records(*numbers: int, of: str | None = None) -> bytes:
    items = [{"record": {"n": number}, "partition": 0, "offset": number, "timestamp": None} for number in numbers]
    return event("records", [{**item, **({"of": of} if of else {})} for item in items])


def stream(*parts: bytes, breaks: bool = False) -> ScriptedResponse:
    return ScriptedResponse(200, parts, {"Content-Type": "text/event-stream; charset=utf-8"}, breaks=breaks)


def one_after_the_other(*responses: ScriptedResponse) -> Callable[[ReceivedRequest], ScriptedResponse]:
    remaining = iter(responses)
    return lambda request: next(remaining)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater_client.tail.RECONNECT_S", 0)


def test_a_tail_connects_again(server: ScriptedServer, flow: Flow) -> None:
    server.respond = one_after_the_other(
        stream(b": keep-alive\n\n", records(1, 2), breaks=True),
        problem_response(503, "unavailable", headers={"Retry-After": "0"}),
        stream(records(3), event("end", {"reason": "idle", "detail": ""})),
        stream(records(4)),
        stream(records(123456789012345678901234567890), event("end", ENDED)),
    )
    opened: list[int] = []
    numbers = [item.record["n"] for item in flow.tail("out", on_open=lambda: opened.append(1))]
    assert numbers == [1, 2, 3, 4, 123456789012345678901234567890]
    assert len(opened) == 4
    assert server.requests[-1].query == {"sink": ["out"]}


def test_the_asynchronous_client_does_the_same(server: ScriptedServer) -> None:
    async def follow() -> list[int]:
        async with AsyncHeadwater(server.url, KEY) as hw:
            return [item.offset async for item in hw.streams.tail("base", "log")]

    server.respond = one_after_the_other(stream(records(1), breaks=True), stream(records(2), event("end", ENDED)))
    assert asyncio.run(follow()) == [1, 2]


def test_skipped_records_are_counted(server: ScriptedServer, flow: Flow) -> None:
    server.respond = one_after_the_other(
        stream(records(1), event("skipped", {"of": "f/out", "count": 17}), event("end", ENDED))
    )
    skipped: list[Skipped] = []
    assert len(list(flow.tail(on_skipped=skipped.append))) == 1
    assert [each.count for each in skipped] == [17]


def test_one_of_several_tails_ends(server: ScriptedServer, hw: Headwater) -> None:
    server.respond = one_after_the_other(
        stream(event("end", {**ENDED, "of": "f/out"}), records(1, of="base/log"), breaks=True),
        stream(records(2, of="base/log"), event("end", {**ENDED, "of": "base/log"})),
    )
    assert [(item.of, item.offset) for item in hw.tail("base/log", "f/out")] == [("base/log", 1), ("base/log", 2)]
    assert [request.query["of"] for request in server.requests] == [["base/log", "f/out"], ["base/log"]]


def test_a_revoked_key_ends_a_tail_with_an_error(server: ScriptedServer, flow: Flow) -> None:
    server.respond = one_after_the_other(
        stream(records(1), breaks=True), problem_response(401, "unauthenticated", "There is no valid API key.")
    )
    items = flow.tail()
    assert next(items).offset == 1
    with pytest.raises(Unauthenticated):
        next(items)


def test_the_end_of_a_block_ends_the_tail(server: ScriptedServer, flow: Flow) -> None:
    server.respond = one_after_the_other(stream(records(1, 2)))
    with flow.tail() as items:
        assert next(items).offset == 1
    assert list(items) == []
