"""Trades and blocks arrive over a real WebSocket.

The server closes connections, repeats messages and sends snapshots.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from headwater.backoff import Backoff
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.hyperliquid import websocket_reader
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.hyperliquid.websocket_reader import WebSocketReader
from headwater.ingest.runner import IngestMetrics, run
from headwater.ingest.writer import StepResult
from tests.integration.ingest.hyperliquid_server import HyperliquidServer
from tests.support.waiting import until

WITHIN_S = 20.0


def trade(coin: str, number: int, time_ms: int | None = None) -> dict[str, Any]:
    """Return a trade. There are three trades per ms."""
    return {"coin": coin, "side": "B", "px": "1.50", "sz": "2.0", "hash": "0x1", "tid": 1000 + number,
            "time": 5000 + number // 3 if time_ms is None else time_ms, "users": ["0xa", "0xb"]}  # fmt: skip


@dataclass
class Store:
    """Stores records and position together, as the writer's transaction does."""

    position: bytes | None = None
    records: list[StreamRecord] = field(default_factory=list)

    def write(self, step: Step) -> StepResult:
        self.records += step.records
        self.position = step.position
        return StepResult({}, [])  # type: ignore[arg-type]  # counts are not read here

    @contextmanager
    def open(self) -> Iterator[tuple[Any, bytes | None]]:
        yield self, self.position

    def tids(self, coin: str = "BTC") -> list[int]:
        values = [json.loads(record.value) for record in self.records]
        return [value["tid"] for value in values if value["coin"] == coin]


@dataclass
class Ingest:
    store: Store = field(default_factory=Store)
    metrics: IngestMetrics = field(default_factory=IngestMetrics)
    stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, server: HyperliquidServer, **options: Any) -> Iterator["Ingest"]:
        reader = WebSocketReader(HyperliquidOptions(name="t", ws=server.url, **options), self.stop)
        self.stop.clear()
        arguments = (reader, self.store.open, self.stop, self.metrics, Backoff(0.01, 0.1))
        thread = threading.Thread(target=run, args=arguments)
        thread.start()
        try:
            yield self
        finally:
            self.stop.set()
            thread.join(WITHIN_S)
        assert not thread.is_alive()


@pytest.fixture
def server() -> Iterator[HyperliquidServer]:
    with HyperliquidServer().running() as server:
        yield server


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_reader, "IDLE_YIELD_S", 0.1)


def subscribed(server: HyperliquidServer, *coins: str) -> None:
    until(lambda: any(set(coins) <= have for have in list(server.subscribed.values())), what=f"{coins} subscribed")


def test_trades_are_ingested_once_despite_disconnects_and_repeats(server: HyperliquidServer) -> None:
    ingest = Ingest()
    with ingest.running(server, coins=("BTC",)):
        subscribed(server, "BTC")
        for number in range(0, 60, 2):
            if number % 14:
                server.send_trades(trade("BTC", number), trade("BTC", number + 1), twice=number % 3 == 0)
            else:
                server.send_trades(trade("BTC", number))
                server.cut()
                server.send_trades(trade("BTC", number + 1))  # only the snapshot has this trade
                subscribed(server, "BTC")
        until(lambda: len(ingest.store.tids()) == 60, what="all trades")
    assert ingest.store.tids() == [1000 + number for number in range(60)]
    assert ingest.metrics.gaps == 0
    assert ingest.metrics.skipped["repeated trade"] > 0
    value = json.loads(ingest.store.records[0].value)
    assert value == {**trade("BTC", 0), "block_number": None, "trade_index": 0}
    assert [json.loads(record.value)["trade_index"] for record in ingest.store.records] == [0, 1, 2] * 20


def test_all_coins_of_meta(server: HyperliquidServer) -> None:
    ingest = Ingest()
    with ingest.running(server):
        subscribed(server, "BTC", "ETH")
        server.send_trades(trade("BTC", 1))
        server.send_trades(trade("ETH", 2))
        until(lambda: len(ingest.store.records) == 2, what="both trades")
    assert (ingest.store.tids("BTC"), ingest.store.tids("ETH")) == ([1001], [1002])


def test_a_gap_beyond_the_snapshot_is_reported(server: HyperliquidServer) -> None:
    ingest = Ingest()
    with ingest.running(server, coins=("BTC",)):
        subscribed(server, "BTC")
        server.send_trades(trade("BTC", 0))
        until(lambda: len(ingest.store.records) == 1, what="the first trade")
    missed = [trade("BTC", number) for number in range(10, 10 + 3 * server.snapshot)]
    server.send_trades(*missed)
    with ingest.running(server, coins=("BTC",)):
        until(lambda: ingest.metrics.gaps == 1, what="a gap")
    assert ingest.store.tids() == [1000, *(one["tid"] for one in missed[-server.snapshot :])]


def test_a_restart_continues_from_the_snapshot(server: HyperliquidServer) -> None:
    ingest = Ingest()
    for first in (0, 10, 20):
        with ingest.running(server, coins=("BTC",)):
            subscribed(server, "BTC")
            server.send_trades(*[trade("BTC", number) for number in range(first, first + 5)])
            until(lambda size=first + 5: len(ingest.store.records) == size, what="trades while it ran")  # type: ignore[misc]
        server.send_trades(*[trade("BTC", number) for number in range(first + 5, first + 10)])
    assert ingest.store.tids() == [1000 + number for number in range(25)]
    assert ingest.metrics.gaps == 0


def test_blocks_of_the_explorer(server: HyperliquidServer) -> None:
    def block(height: int) -> dict[str, Any]:
        return {"height": height, "blockTime": 5000 + height, "hash": "0x9", "proposer": "0xp", "numTxs": 3}

    ingest = Ingest()
    with ingest.running(server, entities=("block",)):
        subscribed(server, "blocks")
        server.send_blocks(block(2), block(1))
        server.send_blocks(block(2), block(3))
        server.send_blocks(block(7))
        until(lambda: len(ingest.store.records) == 4, what="blocks")
    assert [json.loads(record.value) for record in ingest.store.records] == [block(n) for n in (1, 2, 3, 7)]
    assert (ingest.metrics.gaps, ingest.metrics.skipped) == (1, {"repeated block": 1})
    assert ingest.metrics.time_ms == 5007


def test_a_coin_that_does_not_exist(server: HyperliquidServer, capsys: pytest.CaptureFixture[str]) -> None:
    ingest = Ingest()
    with ingest.running(server, coins=("BTC", "DOGE2")):
        until(lambda: ingest.metrics.errors > 1, what="errors")
    output = capsys.readouterr().out
    assert "Invalid subscription DOGE2" in output
    assert "secret" not in output


def test_a_server_that_confirms_nothing(server: HyperliquidServer, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(websocket_reader, "RESPONSE_TIMEOUT_S", 0.2)
    server.silent = True
    ingest = Ingest()
    with ingest.running(server, coins=("BTC",)):
        until(lambda: ingest.metrics.errors > 0, what="an error")
    assert "did not confirm 1 requests: BTC" in capsys.readouterr().out


def test_a_connection_is_kept_alive_and_closed_when_silent(
    server: HyperliquidServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(websocket_reader, "PING_S", 0.2)
    monkeypatch.setattr(websocket_reader, "SILENCE_TIMEOUT_S", 1.0)
    ingest = Ingest()
    with ingest.running(server, coins=("BTC",)):
        until(lambda: server.pings > 5, what="pings")
        assert ingest.metrics.errors == 0, "a pong is a sign of life"
        server.silent = True
        until(lambda: ingest.metrics.errors > 0, what="an error")
    assert "was silent for 1 s" in capsys.readouterr().out


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    with HyperliquidServer().running() as server:
        gone = HyperliquidServer(port=server.port)
    ingest = Ingest()
    with ingest.running(gone, coins=("BTC",)):
        until(lambda: ingest.metrics.errors > 1, what="errors")
    output = capsys.readouterr().out
    assert "Connection refused" in output
    assert "secret" not in output
    assert str(server.port) not in output


def test_unreadable_messages_are_counted(server: HyperliquidServer) -> None:
    ingest = Ingest()
    with ingest.running(server, coins=("BTC",)):
        subscribed(server, "BTC")
        server.send_raw("no JSON")
        server.send_raw('{"channel":"trades","data":[{"coin":"BTC"}]}')
        server.send_raw('{"channel":"trades","data":' + "[" * 10_000 + "]" * 10_000 + "}")
        server.send_trades(trade("BTC", 1))
        until(lambda: len(ingest.store.records) == 1, what="the trade")
    assert ingest.metrics.skipped == {"unreadable message": 3}
