"""The metrics ports, and hostile clients."""

import contextlib
import socket
from collections.abc import Iterator
from socketserver import ThreadingMixIn

import httpx2
import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.app import wsgi_server
from headwater.app.metrics_server import serve_metrics
from headwater.app.wsgi_server import CONNECTIONS
from headwater.errors import SetupError
from tests.support.ports import free_port


class One(Collector):
    """One series."""

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headwater_one", "One.", value=1)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(wsgi_server, "CONNECTION_TIMEOUT_S", 0.3)
    chosen = free_port()
    with serve_metrics(chosen, One(), "--metrics-port"):
        yield chosen


def scrape(port: int) -> httpx2.Response:
    return httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=10)


def ends(connection: socket.socket) -> None:
    """Assert that the server closes the connection."""
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(65_536) == b""


def test_is_scraped(port: int) -> None:
    assert "headwater_one 1.0" in scrape(port).text


def test_slow_and_silent_clients_are_cut_off(port: int) -> None:
    with contextlib.ExitStack() as installation:
        held = [
            installation.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(CONNECTIONS)
        ]
        for connection in held[::2]:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        with socket.create_connection(("127.0.0.1", port), 10) as one_too_many:
            ends(one_too_many)
        for connection in held[1::2]:
            ends(connection)
    assert scrape(port).status_code == 200


def test_an_endless_head_is_read_only_up_to_the_limit(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        for _ in range(100_000):
            connection.sendall(b"X: " + b"a" * 1_000 + b"\r\n")
        raise AssertionError("100 megabytes of header fields were taken")


def test_a_connection_that_gets_no_thread_is_closed_and_frees_its_place(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr(ThreadingMixIn, "process_request", fail)
        for _ in range(CONNECTIONS + 1):
            with socket.create_connection(("127.0.0.1", port), 10) as connection:
                ends(connection)
    assert scrape(port).status_code == 200


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"127.0.0.1:{number}"), serve_metrics(number, One(), "--metrics-port"):
            pass


def test_without_a_port_there_is_no_server() -> None:
    with serve_metrics(0, One(), "--metrics-port"):
        pass
