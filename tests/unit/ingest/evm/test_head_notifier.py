"""New heads from a WebSocket server that starts, rejects and stops."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from headwater.ingest.evm.head_notifier import HeadNotifier
from tests.support.ports import free_port
from tests.support.waiting import until

POLL_S = 0.2
KEY = "abcdef0123456789"


@contextmanager
def server(talk: Callable[[ServerConnection], None], port: int = 0) -> Iterator[str]:
    """Run a WebSocket server for the block. Yield its address."""
    with serve(talk, "127.0.0.1", port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/{KEY}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def waking(url: str | None, poll_s: float = POLL_S) -> Iterator[HeadNotifier]:
    notifier = HeadNotifier(url, poll_s)
    try:
        yield notifier
    finally:
        notifier.close()


def told_by(notifier: HeadNotifier, within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if notifier.wait(0.05):
            return True
    return False


def test_without_a_url_the_clock_tells() -> None:
    with waking(None) as notifier:
        assert notifier.wait(0)
        assert not notifier.wait(0)
        begun = time.monotonic()
        assert told_by(notifier)
        assert time.monotonic() - begun >= POLL_S / 2


def test_each_head_is_reported() -> None:
    heads = threading.Semaphore(0)

    def talk(connection: ServerConnection) -> None:
        asked = json.loads(connection.recv())
        assert (asked["method"], asked["params"]) == ("eth_subscribe", ["newHeads"])
        connection.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": "0x1"}))
        while heads.acquire(timeout=1):
            connection.send(json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": {}}))

    with server(talk) as url, waking(url, poll_s=60) as notifier:
        until(lambda: notifier.is_subscribed)
        while notifier.wait(0.2):
            pass
        for _ in range(3):
            heads.release()
            assert told_by(notifier, 5)


def test_a_rejected_subscription_falls_back_to_polling() -> None:
    def talk(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": KEY}}))

    with structlog.testing.capture_logs() as logs, server(talk) as url, waking(url) as notifier:
        until(lambda: bool(logs))
        assert not notifier.is_subscribed
        assert told_by(notifier)
        assert told_by(notifier)
    assert KEY not in str(logs)


def test_a_server_that_starts_later_is_used() -> None:
    port = free_port()

    def talk(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "result": "0x1"}))
        connection.recv()

    with structlog.testing.capture_logs() as logs, waking(f"ws://127.0.0.1:{port}/{KEY}") as notifier:
        assert told_by(notifier)
        until(lambda: bool(logs))  # the first connection was rejected
        assert KEY not in str(logs)
        with server(talk, port):
            until(lambda: notifier.is_subscribed)
        until(lambda: not notifier.is_subscribed)
        assert told_by(notifier)


def test_an_unexpected_error_does_not_end_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = itertools.count()

    def failing_once(url: str, **options: Any) -> Any:
        if next(attempts) == 0:
            raise RuntimeError(url)
        return connect(url, **options)

    def talk(connection: ServerConnection) -> None:
        connection.recv()
        connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "result": "0x1"}))
        connection.recv()

    monkeypatch.setattr("headwater.ingest.evm.head_notifier.connect", failing_once)
    with structlog.testing.capture_logs() as logs, server(talk) as url, waking(url) as notifier:
        until(lambda: notifier.is_subscribed)
        assert notifier.failures == 1
    assert "RuntimeError" in str(logs)
    assert KEY not in str(logs)
