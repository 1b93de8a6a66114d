"""New heads by a WebSocket server that comes, refuses and goes."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from websockets.sync.server import ServerConnection, serve

from headwater.ingest.evm.head_notifier import HeadNotifier
from tests.support.ports import free_port

POLL_S = 0.2
KEY = "abcdef0123456789"


@contextmanager
def server(talk: Callable[[ServerConnection], None], port: int = 0) -> Iterator[str]:
    """A WebSocket server; its address."""
    with serve(talk, "127.0.0.1", port) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{made.socket.getsockname()[1]}/{KEY}"
        finally:
            made.shutdown()
            thread.join()


@contextmanager
def waking(url: str | None, poll_s: float = POLL_S) -> Iterator[HeadNotifier]:
    wake = HeadNotifier(url, poll_s)
    try:
        yield wake
    finally:
        wake.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told_by(wake: HeadNotifier, within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if wake.wait(0.05):
            return True
    return False


def test_without_a_url_the_clock_tells() -> None:
    with waking(None) as wake:
        assert wake.wait(0)
        assert not wake.wait(0)
        begun = time.monotonic()
        assert told_by(wake)
        assert time.monotonic() - begun >= POLL_S / 2


def test_each_head_is_told() -> None:
    heads = threading.Semaphore(0)

    def talk(connection: ServerConnection) -> None:
        asked = json.loads(connection.recv())
        assert (asked["method"], asked["params"]) == ("eth_subscribe", ["newHeads"])
        connection.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": "0x1"}))
        while heads.acquire(timeout=1):
            connection.send(json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": {}}))

    with server(talk) as url, waking(url, poll_s=60) as wake:
        until(lambda: wake.subscribed)
        while wake.wait(0.2):
            pass
        for _ in range(3):
            heads.release()
            assert told_by(wake, 5)


def test_a_refused_subscription_falls_back_to_the_clock() -> None:
    def talk(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": KEY}}))

    with structlog.testing.capture_logs() as logs, server(talk) as url, waking(url) as wake:
        until(lambda: bool(logs))
        assert not wake.subscribed
        assert told_by(wake)
        assert told_by(wake)
    assert KEY not in str(logs)


def test_a_server_that_comes_later_is_found() -> None:
    port = free_port()

    def talk(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "result": "0x1"}))
        connection.recv()

    with structlog.testing.capture_logs() as logs, waking(f"ws://127.0.0.1:{port}/{KEY}") as wake:
        assert told_by(wake)
        until(lambda: bool(logs))  # it was refused once
        assert KEY not in str(logs)
        with server(talk, port):
            until(lambda: wake.subscribed)
        until(lambda: not wake.subscribed)
        assert told_by(wake)
