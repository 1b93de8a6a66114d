"""The script of the price recipe, in a real sandbox, on records of the Hyperliquid ingest."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.ingest.hyperliquid import websocket_messages as messages
from headwater.recipes import RECIPES
from tests.support.v8 import Bench
from tests.unit.ingest.hyperliquid.node_files import OTHER, TIME, TIME_MS, USER, Reader, append, block, lines, pair

HOUR = "hourly/20260102/3"
TABLE = {"BTC": 5}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.sandbox.close()


def from_fills(root: Path) -> list[bytes]:
    append(root / "node_fills_by_block" / HOUR, lines([block(5, pair(718293645012345))]))
    return [record.value for record in Reader(root, {"from_start": True, "entities": ("trade",)}).read()]


def from_node_trades(root: Path) -> list[bytes]:
    trade = {"coin": "BTC", "side": "B", "time": TIME, "px": "91234.50", "sz": "0.250", "hash": "0x1",
            "side_info": [{"user": USER}, {"user": OTHER}]}  # fmt: skip
    append(root / "node_trades" / HOUR, lines([trade]))
    return [record.value for record in Reader(root, {"from_start": True, "entities": ("trade",)}).read()]


def from_the_websocket(_root: Path) -> list[bytes]:
    message = {"coin": "BTC", "side": "B", "px": "91234.50", "sz": "0.250", "time": TIME_MS, "hash": "0x1",
            "tid": 718293645012345, "users": [USER, OTHER]}  # fmt: skip
    (trade,) = messages.trades(msgspec.Raw(json.dumps([message]).encode()))
    return [messages.trade_record(trade, 0).value]


@pytest.mark.parametrize("source", [from_fills, from_node_trades, from_the_websocket])
def test_a_trade_becomes_its_price(bench: Bench, tmp_path: Path, source: type) -> None:
    (value,) = source(tmp_path)
    body = RECIPES["hyperliquid"].configuration("hyperliquid", "trade", TABLE, "")
    script = body["pipeline_config"]["transforms"][0]["script"]
    ticks, failures = bench.run(script, [value])
    assert not failures
    tick = json.loads(ticks[0] or b"")
    assert (tick["token_address"], tick["price_usd"], tick["volume_usd"]) == ("BTC", 91234.5, 91234.5 * 0.25)
    assert tick["timestamp"] == TIME_MS
    trade = json.loads(value)
    assert (tick["block_number"], tick["log_index"]) == (trade["block_number"] or 0, trade["trade_index"])


def ticks_of(bench: Bench, values: list[bytes]) -> list[dict[str, Any]]:
    body = RECIPES["hyperliquid"].configuration("hyperliquid", "trade", TABLE, "")
    ticks, failures = bench.run(body["pipeline_config"]["transforms"][0]["script"], values)
    assert not failures
    return [json.loads(tick or b"") for tick in ticks]


def order_of(tick: dict[str, Any]) -> tuple[int, int]:
    return tick["block_number"], tick["log_index"]


@pytest.mark.parametrize("by_block", [True, False])
def test_trades_of_one_block_are_in_the_order_of_the_file(bench: Bench, tmp_path: Path, by_block: bool) -> None:
    """Trades are in the order of execution; the tids are hashes."""
    prices = {9: "91234.5", 700: "91234.6", 3: "91234.7", 50: "91234.8"}
    events = [side for tid, price in prices.items() for side in pair(tid, px=price)]
    folder = "node_fills_by_block" if by_block else "node_fills"
    append(tmp_path / folder / HOUR, lines([block(5, events)] if by_block else events))
    records = Reader(tmp_path, {"from_start": True, "entities": ("trade",)}).read()
    ticks = ticks_of(bench, [record.value for record in records])
    ordered = sorted(ticks, key=order_of)
    assert [tick["price_usd"] for tick in ordered] == [float(price) for price in prices.values()]


def test_trades_of_older_versions_are_distinguished(bench: Bench, tmp_path: Path) -> None:
    """Their records have no trade_index.

    Records of the node's own trades have no tid either.
    """
    (value,) = from_node_trades(tmp_path)
    trade = json.loads(value)
    del trade["trade_index"]
    other, with_tid = trade | {"px": "91234.6"}, trade | {"tid": 718293645012345}
    values = [json.dumps(one).encode() for one in (trade, trade, other, with_tid)]
    first, again, second, third = map(order_of, ticks_of(bench, values))
    assert first == again
    assert len({first, second, third}) == 3
    assert third[0] * 2**24 + third[1] == 718293645012345
