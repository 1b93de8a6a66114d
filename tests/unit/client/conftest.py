"""Fixtures with a server, and with clients of it."""

from collections.abc import Iterator

import pytest

from headwater_client import Flow, Headwater, set_filter
from tests.support import example_api
from tests.support.scripted_server import ScriptedServer, json_response, problem_response

KEY = "hw_live_abcdefghijkl_secret"
FLOW = {
    "id": "f",
    "name": "whales",
    "description": "",
    "tags": [],
    "owner_org_team_user_id": "ann",
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-01-02T03:04:05.678Z",
    "revision": 3,
    "pipeline_config": {
        "source": {"type": "pubsub", "chain": "base", "entity": "log"},
        "transforms": [{**set_filter("root = this.a", name="token"), "uid": "t"}],
        "sinks": [{"type": "webhook", "name": "w", "uid": "s", "url": "https://example.com"}],
    },
}


@pytest.fixture(scope="session")
def example_server() -> Iterator[ScriptedServer]:
    """Run a server that sends the examples of the API's description."""
    with ScriptedServer(example_api.respond) as server:
        yield server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Run a server whose `respond` a test sets."""
    with ScriptedServer(lambda request: problem_response(404, "not-found")) as server:
        yield server


@pytest.fixture
def hw(server: ScriptedServer) -> Iterator[Headwater]:
    with Headwater(server.url, KEY, timeout=5) as client:
        yield client


@pytest.fixture
def flow(server: ScriptedServer, hw: Headwater) -> Flow:
    """Return a pipeline with the filter `token`, and a sink of an unknown type."""
    server.respond = lambda request: json_response(FLOW)
    return hw.flows.get("f")
