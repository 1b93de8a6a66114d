"""The proxy of the chaos tests never changes, drops or reorders bytes.

It may do anything else to a connection.
"""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.ports import free_port
from tests.support.proxy import CLEAR, Conditions, Proxy

DATA = random.Random(3).randbytes(300_000)


def echo(listener: socket.socket) -> None:
    """Answer each connection with what it sends, until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_echo_one, args=(connection,), daemon=True).start()


def _echo_one(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(1 << 16):
                connection.sendall(data)
        except OSError:
            return


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy in front of a server that echoes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=echo, args=(listener,))
        server.start()
        proxy = Proxy(("127.0.0.1", free_port()), listener.getsockname(), run_number=1)
        proxy.start()
        yield proxy
        proxy.stop()
        listener.shutdown(socket.SHUT_RDWR)
        server.join()


@contextmanager
def connected(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(proxy.address, timeout=20) as connection:
        yield connection


def exchange(connection: socket.socket, data: bytes = DATA) -> bytes:
    """Return the bytes that the server sends back."""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    back = b""
    while len(back) < len(data):
        chunk = connection.recv(1 << 16)
        assert chunk, "the connection ended"
        back += chunk
    sender.join()
    return back


@pytest.mark.parametrize(
    "conditions",
    [CLEAR, Conditions(latency_s=0.01), Conditions(bytes_per_s=2_000_000), Conditions(slice_bytes=2_000)],
)
def test_what_is_sent_arrives(proxy: Proxy, conditions: Conditions) -> None:
    proxy.set(conditions)
    with connected(proxy) as connection:
        assert exchange(connection) == DATA


@pytest.mark.parametrize("way", ["to_server", "to_client"])
def test_a_held_direction_passes_nothing_until_it_is_released(proxy: Proxy, way: str) -> None:
    with connected(proxy) as connection:
        assert exchange(connection, b"before") == b"before"
        proxy.set(Conditions(held=frozenset([way])))  # type: ignore[list-item]  # from parametrize
        connection.sendall(b"meanwhile")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(20)
        proxy.set(CLEAR)
        assert connection.recv(100) == b"meanwhile"


def test_a_reset_ends_connections_and_not_the_proxy(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert exchange(connection, b"before") == b"before"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    with connected(proxy) as connection:
        assert exchange(connection) == DATA


def test_refused_connections_are_reset_until_they_are_not(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert exchange(connection, b"before") == b"before"
        proxy.set(Conditions(refused=True))
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    with pytest.raises(ConnectionResetError), connected(proxy) as connection:
        connection.recv(100)
    proxy.set(CLEAR)
    with connected(proxy) as connection:
        assert exchange(connection) == DATA


def test_a_half_open_connection_is_silent_until_it_is_reset(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert exchange(connection, b"before") == b"before"
        proxy.half_open()
        connection.sendall(b"into the void")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        with connected(proxy) as other:
            assert exchange(other, b"new ones work") == b"new ones work"
        connection.settimeout(20)
        proxy.set(CLEAR)
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


def test_without_a_server_connections_are_reset() -> None:
    proxy = Proxy(("127.0.0.1", free_port()), ("127.0.0.1", free_port()), run_number=1)
    proxy.start()
    with pytest.raises(ConnectionResetError), connected(proxy) as connection:
        connection.recv(100)
    proxy.stop()
