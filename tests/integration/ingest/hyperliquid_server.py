"""A WebSocket server with Hyperliquid's API.

It has subscriptions, confirmations, snapshots, pings, `meta` and blocks.

It sends the trades that the test gives it, on a free port of 127.0.0.1.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

SNAPSHOT = 30
"""The number of trades in the snapshot at the start of a subscription."""

Trade = dict[str, Any]


@dataclass
class HyperliquidServer:
    """The server.

    Attributes:
        coins: The coins in `meta`.
        history: All trades so far, by coin.
        snapshot: How many trades a new subscriber gets first."""

    coins: list[str] = field(default_factory=lambda: ["BTC", "ETH"])
    snapshot: int = SNAPSHOT
    silent: bool = False
    history: dict[str, list[Trade]] = field(default_factory=dict)
    pings: int = 0
    connections: int = 0
    subscribed: dict[ServerConnection, set[str]] = field(default_factory=dict)
    port: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws?key=secret"

    @contextmanager
    def running(self) -> Iterator["HyperliquidServer"]:
        with serve(self._talk, "127.0.0.1", 0) as server:
            self.port = server.socket.getsockname()[1]
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                self._stop(server)
                thread.join()

    def _stop(self, server: Server) -> None:
        self.cut()
        server.shutdown()

    def _talk(self, connection: ServerConnection) -> None:
        with self._lock:
            self.connections += 1
            self.subscribed[connection] = set()
        try:
            for text in connection:
                self._answer(connection, json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            with self._lock:
                self.subscribed.pop(connection, None)

    def _answer(self, connection: ServerConnection, request: dict[str, Any]) -> None:
        if self.silent:
            return
        match request:
            case {"method": "ping"}:
                self.pings += 1
                self._send(connection, {"channel": "pong"})
            case {"method": "post", "id": number, "request": {"type": "info", "payload": {"type": "meta"}}}:
                universe = [{"name": coin, "szDecimals": 5} for coin in self.coins]
                universe.append({"name": "GONE", "szDecimals": 1, "isDelisted": True})
                payload = {"type": "meta", "data": {"universe": universe}}
                self._send(connection, {"channel": "post", "data": {"id": number, "response": {
                    "type": "info", "payload": payload}}})  # fmt: skip
            case {"method": "subscribe", "subscription": {"type": "trades", "coin": coin}}:
                self._subscribe(connection, request, coin)
            case {"method": "subscribe", "subscription": {"type": "explorerBlock"}}:
                with self._lock:
                    self.subscribed[connection].add("blocks")

    def _subscribe(self, connection: ServerConnection, request: dict[str, Any], coin: str) -> None:
        if coin not in self.coins:
            self._send(connection, {"channel": "error", "data": f"Invalid subscription {coin}"})
            connection.close()
            return
        self._send(connection, {"channel": "subscriptionResponse", "data": request})
        with self._lock:
            last = self.history.get(coin, [])[-self.snapshot :] if self.snapshot else []
            if last:
                self._send(connection, {"channel": "trades", "data": last[::-1]})  # the newest first
            self.subscribed[connection].add(coin)

    @staticmethod
    def _send(connection: ServerConnection, message: Any) -> None:
        connection.send(json.dumps(message))

    def send_trades(self, *trades: Trade, twice: bool = False) -> None:
        """Send trades of one coin to the subscribers; send the message twice if `twice`."""
        with self._lock:
            coin = trades[0]["coin"]
            self.history.setdefault(coin, []).extend(trades)
            for connection, coins in list(self.subscribed.items()):
                if coin in coins:
                    for _ in range(1 + twice):
                        self._try(connection, {"channel": "trades", "data": list(trades)})

    def send_blocks(self, *blocks: dict[str, Any]) -> None:
        """Send blocks like the explorer, without a channel."""
        with self._lock:
            for connection, kinds in list(self.subscribed.items()):
                if "blocks" in kinds:
                    self._try(connection, list(blocks))

    def send_raw(self, text: str) -> None:
        """Send a raw message to all clients."""
        with self._lock:
            for connection in list(self.subscribed):
                connection.send(text)

    def _try(self, connection: ServerConnection, message: Any) -> None:
        with suppress(ConnectionClosed):
            self._send(connection, message)

    def cut(self) -> None:
        """Close all connections without a close frame."""
        with self._lock:
            for connection in list(self.subscribed):
                with suppress(OSError):  # the connection may be closed already
                    connection.socket.shutdown(2)
            self.subscribed.clear()
