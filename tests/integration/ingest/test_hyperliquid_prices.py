"""The price recipe reads what the Hyperliquid ingest writes: the same script, in the real sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.ingest.hyperliquid import messages
from headwater.services.recipes import RECIPES
from tests.support.v8 import Bench
from tests.unit.ingest.hyperliquid.node_files import OTHER, TIME, TIME_MS, USER, Reader, append, block, lines, pair

HOUR = "hourly/20260102/3"
TABLE = {"BTC": 5}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.sandbox.close()


def from_fills(root: Path) -> list[bytes]:
    append(root / "node_fills_by_block" / HOUR, lines([block(5, pair(718293645012345))]))
    return [record.value for record in Reader(root, {"from_start": True, "entities": ("trade",)}).read()]


def from_node_trades(root: Path) -> list[bytes]:
    told = {"coin": "BTC", "side": "B", "time": TIME, "px": "91234.50", "sz": "0.250", "hash": "0x1",
            "side_info": [{"user": USER}, {"user": OTHER}]}  # fmt: skip
    append(root / "node_trades" / HOUR, lines([told]))
    return [record.value for record in Reader(root, {"from_start": True, "entities": ("trade",)}).read()]


def from_the_websocket(_root: Path) -> list[bytes]:
    told = {"coin": "BTC", "side": "B", "px": "91234.50", "sz": "0.250", "time": TIME_MS, "hash": "0x1",
            "tid": 718293645012345, "users": [USER, OTHER]}  # fmt: skip
    (trade,) = messages.trades(msgspec.Raw(json.dumps([told]).encode()))
    return [messages.trade_record(trade).value]


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
    number = json.loads(value)["tid"]
    assert number is None or tick["block_number"] * 2**24 + tick["log_index"] == number


def test_trades_of_one_moment_are_told_apart_without_a_tid(bench: Bench, tmp_path: Path) -> None:
    (value,) = from_node_trades(tmp_path)
    other = json.dumps(json.loads(value) | {"px": "91234.6"}).encode()
    body = RECIPES["hyperliquid"].configuration("hyperliquid", "trade", TABLE, "")
    ticks, _ = bench.run(body["pipeline_config"]["transforms"][0]["script"], [value, value, other])
    first, again, second = (json.loads(tick or b"") for tick in ticks)
    orders = [(tick["block_number"], tick["log_index"]) for tick in (first, again, second)]
    assert orders[0] == orders[1] != orders[2]
