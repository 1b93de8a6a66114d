"""All recorded Hyperliquid files from the directory that HEADWATER_TEST_DATA names.

Node files are followed in the layout of a node. Forms of the HTTP API, of the WebSocket and of published tables are
put into the form that this ingest reads, where they have the members for it.
"""

import csv
import gzip
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid import websocket_messages as messages
from headwater.ingest.hyperliquid.position import WebSocketPosition
from headwater.ingest.hyperliquid.websocket_reader import EventDeduplicator
from headwater.model.natural_key import natural_key
from tests.unit.ingest.hyperliquid.node_files import USER, Reader, append, lines

FOLDER = Path(os.environ.get("HEADWATER_TEST_DATA") or "nowhere") / "hyperliquid"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="HEADWATER_TEST_DATA names no folder")

NODE_FILES = {
    "fills/node_fills_by_block_20260315.jsonl": "node_fills_by_block/hourly/20260315/0",
    "fills/node_fills_by_block_978995377_978995416_BTC.jsonl": "node_fills_by_block/hourly/20260430/20",
    "orders/node_order_statuses_by_block_978995377_978995416_BTC.jsonl.gz": (
        "node_order_statuses_by_block/hourly/20260430/20"
    ),
    "trades/node_trades_20250624.jsonl": "node_trades/hourly/20250624/2",
    "misc_events/node_misc_events_samples.jsonl": "misc_events_by_block/hourly/20260611/1",
}


def content(name: str) -> bytes:
    data = (FOLDER / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    return data if data.endswith(b"\n") else data + b"\n"


def parsed(name: str) -> Any:
    return json.loads(content(name))


def rows(name: str) -> Iterator[dict[str, str]]:
    return csv.DictReader(content(name).decode().splitlines())


def read_all(root: Path) -> tuple[dict[str, list[StreamRecord]], Reader]:
    reader, found = Reader(root, {"from_start": True}), defaultdict(list)
    for record in reader.read():
        found[record.stream].append(record)
    return found, reader


def test_the_files_of_a_node(tmp_path: Path) -> None:
    for name, path in NODE_FILES.items():
        append(tmp_path / path, content(name))
    found, reader = read_all(tmp_path)
    counts = {stream: len(records) for stream, records in found.items()}
    print(counts)
    assert counts == {"fill": 1366, "trade": 32 + 2 + 13, "order": 7769, "misc_event": 8}
    assert not reader.skipped
    assert reader.gaps == 1, "the two files of fills are of different days"
    for stream in ("fill", "trade", "order", "misc_event"):
        key_of = natural_key("hyperliquid", stream)
        keys = [record.key for record in found[stream]]
        assert keys == [key_of(record.value) for record in found[stream]]
        assert len(set(keys)) == len(keys), "natural keys are unique"


def test_the_bytes_of_events_are_unchanged(tmp_path: Path) -> None:
    for name, path in NODE_FILES.items():
        append(tmp_path / path, content(name))
    found, _ = read_all(tmp_path)
    fills = content("fills/node_fills_by_block_20260315.jsonl").splitlines()
    events = [(block["block_number"], *event) for block in map(json.loads, fills) for event in block["events"]]
    expected = [{"user": user, **fill, "block_number": number} for number, user, fill in events]
    assert [json.loads(record.value) for record in found["fill"][: len(expected)]] == expected
    orders = content("orders/node_order_statuses_by_block_978995377_978995416_BTC.jsonl.gz")
    assert all(record.value.rpartition(b',"block_number":')[0] in orders for record in found["order"][::100])


def independent_trades(name: str) -> list[dict[str, Any]]:
    """Pair fills by (block, coin, tid) without the package. A tid of 0 is a dust conversion."""
    groups: dict[tuple[int, str, int], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for line in content(name).splitlines():
        block = json.loads(line)
        for user, fill in block["events"]:
            groups[block["block_number"], fill["coin"], fill["tid"]].append((user, fill))
    made = []
    for (number, coin, tid), group in groups.items():
        if tid == 0:
            assert {fill["dir"] for _, fill in group} <= {"Spot Dust Conversion"}
            continue
        (buyer, bought), (seller, sold) = sorted(group, key=lambda one: one[1]["side"], reverse=True)
        assert (bought["side"], sold["side"]) == ("B", "A")
        assert all(bought[member] == sold[member] for member in ("px", "sz", "time", "hash"))
        taker = bought if bought["crossed"] else sold
        made.append({"coin": coin, "tid": tid, "users": [buyer, seller], "block_number": number, "side": taker["side"]}
                    | {member: bought[member] for member in ("px", "sz", "time", "hash")})  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("name", "distinct", "trades"),
    [("20260315", 52, 32), ("978995377_978995416_BTC", 2, 2)],
)
def test_trades_of_recorded_fills(tmp_path: Path, name: str, distinct: int, trades: int) -> None:
    file = f"fills/node_fills_by_block_{name}.jsonl"
    append(tmp_path / "node_fills_by_block/hourly/20260315/0", content(file))
    found, _ = read_all(tmp_path)
    expected = independent_trades(file)
    fills = [json.loads(record.value) for record in found["fill"]]
    assert len({(fill["block_number"], fill["coin"], fill["tid"]) for fill in fills}) == distinct
    assert len(expected) == trades
    by_tid = {(trade["coin"], trade["tid"]): trade for trade in expected}
    made = [json.loads(record.value) for record in found["trade"]]
    assert len({(trade["block_number"], trade.pop("trade_index")) for trade in made}) == trades
    assert {(trade["coin"], trade["tid"]): trade for trade in made} == by_tid
    assert len(made) == trades


def test_forms_of_the_api(tmp_path: Path) -> None:
    """Fill of the API have the form `[user, fill]`, and old ones have no tid.

    Orders have the node's time format.
    """
    fills = [
        *parsed("fills/api_userFills.json"),
        *parsed("fills/nautilus_http_user_fills_dust_conversion.json"),
        *parsed("fills/nautilus_ws_user_fill_liquidation.json")["data"]["fills"],
    ]
    deltas = [*parsed("misc_events/api_userFunding.json"), *parsed("misc_events/api_userNonFundingLedgerUpdates.json")]
    orders = parsed("orders/api_historicalOrders.json")
    misc = [{"time": "2026-01-02T03:04:05", "hash": d["hash"], "inner": {"LedgerUpdate": d["delta"]}} for d in deltas]
    statuses = [{"time": "2026-01-02T03:04:05", "user": USER, **o} for o in orders]
    statuses += [{"time": "2026-01-02T03:04:05", "user": USER, "status": "open", "order": o}
                 for o in parsed("orders/api_frontendOpenOrders.json")]  # fmt: skip
    append(tmp_path / "node_fills/hourly/20260102/3", lines([USER, fill] for fill in fills))
    append(tmp_path / "node_order_statuses/hourly/20260102/3", lines(statuses))
    append(tmp_path / "node_misc_events/hourly/20260102/3", lines(misc))
    found, reader = read_all(tmp_path)
    assert {stream: len(records) for stream, records in found.items()} == {
        "fill": 306, "order": 8, "misc_event": 18,
    }  # fmt: skip
    assert len({record.key for record in found["fill"]}) == 306, "old fills have no tid, and one order met up to seven"
    assert set(reader.skipped) <= {"fill without the fill of the other side"}, "the API returns one user's fills"


def test_blocks() -> None:
    """Block of the explorer have a hash; envelopes are a node's lines without events."""
    full, without_hash = content("blocks/block_samples.jsonl").splitlines()
    (block,) = EventDeduplicator(WebSocketPosition()).deduplicate_blocks(messages.read(b"[%b]" % full))  # type: ignore[arg-type]  # blocks
    assert json.loads(messages.block_record(block).value) == json.loads(full)
    assert messages.read(b"[%b]" % without_hash)[0].hash == ""  # type: ignore[index]  # blocks
    envelopes = content("blocks/block_envelopes.jsonl").splitlines()
    assert len(envelopes) == 42
    for line in envelopes:
        part = records.read_line(line[:-1] + b',"events":[]}')
        assert part.block_number == json.loads(line)["block_number"]


def test_trades_of_the_websocket() -> None:
    """Convert recorded tables of trades to messages of ten trades, each of which is sent twice."""
    new, seen, ids = EventDeduplicator(WebSocketPosition()), Counter[str](), set[tuple[str, str, str]]()
    for coin, size in (("BTC", 1497), ("ETH", 782)):
        table = list(rows(f"trades/ws_trades_{coin}_20250903.csv"))
        assert len(table) == size
        ids |= {(coin, row["trade_id"], row["exchange_timestamp"]) for row in table}
        for start in range(0, size, 10):
            lot = [ws_trade(coin, row) for row in table[start : start + 10]]
            data = msgspec.Raw(json.dumps(lot).encode())
            for trades in (messages.trades(data), messages.trades(data)):
                seen.update(messages.trade_record(*trade).key.decode() for trade in new.deduplicate_trades(trades))
    assert len(ids) == 2248, "the recording has 31 trades twice"
    assert seen.total() == len(seen) == len(ids)
    assert new.skipped == {"repeated trade": 2 * 2279 - 2248}
    http = parsed("trades/nautilus_http_recent_trades_btc.json")
    fresh = EventDeduplicator(WebSocketPosition()).deduplicate_trades(
        messages.trades(msgspec.Raw(json.dumps(http).encode()))
    )
    assert [trade.tid for trade, _ in fresh] == [300001, 300002, 300003], "a snapshot may begin with the newest"


def ws_trade(coin: str, row: dict[str, str]) -> dict[str, Any]:
    return {
        "coin": coin, "side": "B" if row["side"] == "buy" else "A", "px": row["price"], "sz": row["size"],
        "time": int(row["exchange_timestamp"]), "hash": "0x0", "tid": int(row["trade_id"]), "users": [USER, USER],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "count", "missing"),
    [
        ("fills/trader_fills_2024_2025.csv.gz", 8733, "Trade IDs were rounded by a spreadsheet"),
        ("trades/official_non_mm_trades_2023.csv.gz", 20026, "one user's side, without ids"),
        ("misc_events/official_liquidations_2023.csv", 62, "neither hash nor event"),
        ("misc_events/official_non_mm_ledger_updates_2023.csv", 413, "neither hash nor event"),
    ],
)
def test_tables_that_no_node_writes(name: str, count: int, missing: str) -> None:
    """These tables lack members of a record. `headwater replay` can write them as CSV."""
    table = list(rows(name))
    assert len(table) == count
    with pytest.raises(records.BAD_EVENT_ERRORS):
        records.fill_record(msgspec.Raw(json.dumps([USER, table[0]]).encode()), None)
