"""Uploads send any number of values in parts, several at once."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable

import pytest

from headwater_client import AsyncHeadwater, Flow, Headwater, Unprocessable, Upload, upload
from tests.support.scripted_server import (
    ReceivedRequest,
    ScriptedResponse,
    ScriptedServer,
    json_response,
    problem_response,
)
from tests.unit.client.conftest import FLOW, KEY


class CountingApi:
    """Stores values, and counts how many requests are handled at once."""

    def __init__(self) -> None:
        self.values: set[str] = set()
        self.sizes: list[int] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def __call__(self, request: ReceivedRequest) -> ScriptedResponse:
        if request.method == "GET":
            return json_response(FLOW)
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(0.02)
        with self._lock:
            self._at_once -= 1
            values = request.json()["values"]
            self.sizes.append(len(values))
            before = len(self.values)
            self.values.update(values)
            return json_response({"added": len(self.values) - before, "version": len(self.sizes)})


@pytest.fixture
def api(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> CountingApi:
    monkeypatch.setattr(upload, "REQUEST_BATCH_VALUES", 10)
    api = CountingApi()
    server.respond = api
    return api


def values(count: int) -> Iterable[str]:
    return (f"0x{number:040x}" for number in range(count))


def test_an_upload_in_batches(api: CountingApi, flow: Flow, server: ScriptedServer) -> None:
    server.respond = api
    states: list[Upload] = []
    result = flow.filters["token"].add(values(205), progress=states.append)
    assert result == Upload(sent=205, changed=205, version=21, complete=205)
    assert sorted(api.sizes) == [5, *[10] * 20]
    assert 2 <= api.most_at_once <= 5
    assert [state.sent for state in states] == sorted(state.sent for state in states)
    assert len(states) == 21
    assert all(state.complete <= state.sent for state in states)


def test_an_asynchronous_upload(api: CountingApi, server: ScriptedServer) -> None:
    async def add() -> Upload:
        async with AsyncHeadwater(server.url, KEY) as hw:
            flow = await hw.flows.get("f")
            return await flow.filters["token"].add(asynchronous_values(205))

    async def asynchronous_values(count: int) -> AsyncIterator[str]:
        for value in values(count):
            yield value

    assert asyncio.run(add()).changed == 205
    assert 2 <= api.most_at_once <= 5
    assert len(api.values) == 205


def test_an_upload_that_fails_says_how_far_it_is(api: CountingApi, flow: Flow, server: ScriptedServer) -> None:
    states: list[Upload] = []

    def respond(request: ReceivedRequest) -> ScriptedResponse:
        if b"bad" in request.body:
            time.sleep(0.2)
            return problem_response(422, "invalid-input", "A value is blank.")
        return api(request)

    server.respond = respond
    with pytest.raises(Unprocessable):
        flow.filters["token"].add([*values(30), "bad", *values(100)], progress=states.append)
    assert states[-1].complete == 30


def test_the_generator_is_not_read_ahead(api: CountingApi, flow: Flow, server: ScriptedServer) -> None:
    server.respond = api
    most = 0

    def watched() -> Iterable[str]:
        nonlocal most
        for number, value in enumerate(values(500)):
            most = max(most, number - sum(api.sizes))
            yield value

    flow.filters["token"].add(watched())
    assert most <= 10 * 7


def test_a_text_is_no_list_of_values(hw: Headwater, flow: Flow) -> None:
    with pytest.raises(TypeError, match="`values` is a single string"):
        flow.filters["token"].add("0xabc")
    with pytest.raises(TypeError, match="`values` is a single string"):
        flow.filters["token"].replace("0xabc")


@pytest.mark.parametrize("count", [0, 1, 45_000])
def test_a_replacement_is_one_streamed_request(count: int, flow: Flow, server: ScriptedServer) -> None:
    server.respond = lambda request: json_response({"count": len(request.json()["values"]), "version": 2})
    assert flow.filters["token"].replace(values(count)).count == count
    assert server.requests[-1].headers["Transfer-Encoding"] == "chunked"


def test_progress_is_written_to_standard_error(
    api: CountingApi, flow: Flow, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.respond = api
    flow.filters["token"].add(values(3), progress=True)
    assert capsys.readouterr().err == "sent 3, changed 3\n"
