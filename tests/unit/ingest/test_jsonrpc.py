"""The JSON-RPC client logs unavailable nodes, and counts retries."""

import socket
from threading import Event

import pytest
from structlog.testing import capture_logs

from headwater.errors import NodeUnavailable
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.jsonrpc import Endpoint
from tests.support.node import Node, Reply

CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": []}'


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/with-a-key"


def test_an_unavailable_node_is_logged_at_the_first_failure(nobody: str) -> None:
    endpoint = Endpoint(nobody, 0, CancelToken(Event()), sleep=lambda _: None)
    with (
        capture_logs() as lines,
        pytest.raises(NodeUnavailable, match=r"^The request getSlot to the node 127\.0\.0\.1 failed: the connection"),
    ):
        endpoint.call_with_retries(lambda: endpoint.post(CALL), " getSlot")
    endpoint.close()
    assert [(line["event"], line["node"]) for line in lines] == [
        ("a node does not answer; the request is repeated", "127.0.0.1")
    ]
    assert "with-a-key" not in repr(lines)


def test_the_last_attempt_is_not_counted_as_a_retry(nobody: str) -> None:
    waits: list[float] = []
    endpoint = Endpoint(nobody, 0, CancelToken(Event()), sleep=waits.append, attempts=3)
    with pytest.raises(NodeUnavailable):
        endpoint.call_with_retries(lambda: endpoint.post(CALL))
    endpoint.close()
    assert endpoint.retries == len(waits) == 2


def test_a_node_that_closes_connections_is_logged_once() -> None:
    replies: list[Reply | str] = ["cut", "cut", Reply(200, {"id": 1}), "cut", Reply(200, {"id": 1})]
    with Node(lambda _: replies.pop(0)) as node, capture_logs() as lines:
        endpoint = Endpoint(node.address, 0, CancelToken(Event()), sleep=lambda _: None)
        for _ in range(2):
            endpoint.call_with_retries(lambda: endpoint.post(CALL))
        endpoint.close()
    assert len(lines) == 1
