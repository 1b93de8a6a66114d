"""Live tails over real sockets.

They end when a client disconnects or the server stops, and no client delays others.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal

from headwater.api.app import create_api, end_waits
from headwater.app.http_server import ApiServer, server_config
from headwater.model.topic_record import TopicRecord
from headwater.settings import Settings
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation

LOGS = "stream.base.log"
TAIL = f"{FLOW}/streams/base/log/records/tail"


class Server:
    """An API that a real HTTP server serves."""

    def __init__(self, headwater: Installation) -> None:
        self.kafka = headwater.tails
        self.kafka.create(LOGS)
        self.key = headwater.keys.create("alice")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        api = create_api(headwater.services())
        config = server_config(api, Settings(), lambda _: None)
        self._server = ApiServer(config, api.state.services.tails.end_all, partial(end_waits, api))
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],))

    def start(self) -> None:
        self._thread.start()
        until(lambda: self._server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx2.Client]:
        headers = {"X-API-Key": self.key}
        with httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=30) as client:
            yield client

    def request(self) -> socket.socket:
        """Request a tail on a new connection, without reading the response."""
        connection = socket.create_connection(("127.0.0.1", self.port), 30)
        connection.sendall(f"GET {TAIL} HTTP/1.1\r\nHost: a\r\nX-API-Key: {self.key}\r\n\r\n".encode())
        return connection

    def append(self, first: int, count: int, value: bytes = b"{}") -> None:
        self.kafka.append(LOGS, *(TopicRecord(0, offset, None, None, value) for offset in range(first, first + count)))


@pytest.fixture
def server() -> Iterator[Server]:
    with start_blocking_portal() as portal:
        server = Server(Installation(portal))
        server.start()
        yield server
        server.stop()


def data_of(lines: Iterator[str], name: str) -> Iterator[Any]:
    """Yield the data of the events with a name."""
    for line in lines:
        if line == f"event: {name}":
            yield json.loads(next(lines).removeprefix("data: "))


def test_records_arrive_while_the_response_is_open(server: Server) -> None:
    with server.client() as client, client.stream("GET", TAIL) as response:
        assert (response.status_code, response.headers["transfer-encoding"]) == (200, "chunked")
        lines = response.iter_lines()
        for number in range(3):
            server.append(number, 1)
            assert [item["offset"] for item in next(data_of(lines, "records"))] == [number]


def test_a_client_that_disconnects_closes_its_tail(server: Server) -> None:
    with server.client() as client, client.stream("GET", TAIL):
        until(lambda: server.kafka.listeners)
    until(lambda: not server.kafka.listeners, 10, "the tail is closed")


def test_a_stopping_server_ends_its_tails_at_once(server: Server) -> None:
    with server.client() as client, client.stream("GET", TAIL) as response:
        until(lambda: server.kafka.listeners)
        server.append(1, 1)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        text = response.read().decode()
        stopper.join()
    assert [line for line in text.splitlines() if line.startswith("event")] == ["event: records", "event: end"]
    assert '"reason":"shutdown"' in text
    assert not server.kafka.listeners


@pytest.mark.long
def test_a_client_that_does_not_read_delays_nobody(server: Server) -> None:
    large = b'"' + b"x" * 50_000 + b'"'
    with server.request(), server.client() as client, client.stream("GET", TAIL) as response:
        until(lambda: len(server.kafka.listeners) == 2)
        lines = response.iter_lines()
        for number in range(100):
            server.append(number, 1, large)
            found = next(data_of(lines, "records"))
            assert [item["offset"] for item in found] == [number]


@pytest.mark.long
def test_a_server_stops_although_a_client_does_not_read(server: Server) -> None:
    with server.request():
        until(lambda: server.kafka.listeners)
        for number in range(100):
            server.append(number, 20, b'"' + b"x" * 50_000 + b'"')
            time.sleep(0.01)
        server.stop()
    assert not server.kafka.listeners
