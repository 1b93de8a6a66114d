"""Trades from fills, and trades that a node writes."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headwater.ingest.hyperliquid.conversion import REPEATED_TRADE, UNMATCHED_FILL, ConvertedBatch, Converter
from headwater.ingest.hyperliquid.position import BlockProgress
from headwater.ingest.hyperliquid.records import BlockPart, Side
from headwater.model.natural_key import natural_key
from tests.unit.ingest.hyperliquid.node_files import HASH, OTHER, TIME, TIME_MS, USER, fill

KEY_OF = natural_key("hyperliquid", "trade")


def raw(*events: Any) -> list[msgspec.Raw]:
    return [msgspec.Raw(json.dumps(event).encode()) for event in events]


class Fills:
    """Converts fills; each call is another line of the same block."""

    def __init__(self) -> None:
        self.converter = Converter(frozenset({"trade"}), [])
        self.batch = ConvertedBatch()
        self.progress = BlockProgress(5)

    def add(self, *events: Any, time_ms: int = TIME_MS) -> list[dict[str, Any]]:
        self.converter = Converter(frozenset({"trade"}), self.converter.unmatched_fills)  # as after a restart
        before = len(self.batch.records)
        self.converter.add_fills(BlockPart(5, TIME, raw(*events)), time_ms, self.progress, self.batch, True)
        self.progress.events_taken += len(events)
        return [json.loads(record.value) for record in self.batch.records[before:]]


class TestTradesOfFills:
    @pytest.mark.parametrize("taker", ["A", "B"])
    @pytest.mark.parametrize("first", ["A", "B"])
    def test_two_sides_are_a_trade(self, taker: Side, first: Side) -> None:
        fills, users = Fills(), {"B": "buyer", "A": "seller"}
        second: Side = "B" if first == "A" else "A"
        assert fills.add(fill(9, first, users[first], crossed=first == taker)) == []
        (trade,) = fills.add(fill(9, second, users[second], crossed=second == taker))
        assert (trade["side"], trade["users"], trade["px"], trade["tid"]) == (taker, ["buyer", "seller"], "91234.50", 9)
        assert fills.converter.unmatched_fills == []

    def test_trades_of_a_block_are_in_the_order_of_the_file(self) -> None:
        fills = Fills()
        pairs = [[fill(tid), fill(tid, "A", OTHER)] for tid in (9, 3, 7, 1)]
        found = fills.add(*pairs[0], *pairs[1]) + fills.add(*pairs[2]) + fills.add(*pairs[3])
        assert [trade["tid"] for trade in found] == [9, 3, 7, 1]
        order = [trade["trade_index"] for trade in found]
        assert order == sorted(set(order))

    def test_a_dust_conversion_is_not_a_trade(self) -> None:
        fills = Fills()
        assert fills.add(fill(0, "A"), fill(0, "B")) == []
        assert fills.converter.unmatched_fills == []

    def test_a_single_fill_is_dropped_at_the_end_of_its_block(self) -> None:
        fills = Fills()
        fills.add(fill(1, "A"))
        fills.add(fill(2, "A", time=TIME_MS + 1), time_ms=TIME_MS + 1)
        assert fills.batch.skipped == {UNMATCHED_FILL: 1}
        assert [half.trade_key[2] for half in fills.converter.unmatched_fills] == [2]

    def test_two_fills_of_one_side_are_not_a_trade(self) -> None:
        fills = Fills()
        assert fills.add(fill(1, "A"), fill(1, "A", OTHER)) == []
        assert fills.batch.skipped == {UNMATCHED_FILL: 1}


def node_trade(buyer_oid: int, seller_oid: int, side: Side = "B", **members: Any) -> dict[str, Any]:
    info = [{"user": USER, "oid": buyer_oid}, {"user": OTHER, "oid": seller_oid}]
    return {
        "coin": "BTC",
        "side": side,
        "time": TIME,
        "px": "1.5",
        "sz": "1",
        "hash": HASH,
        "side_info": info,
    } | members


def converted(*events: Any) -> tuple[list[dict[str, Any]], list[bytes], ConvertedBatch]:
    batch = ConvertedBatch()
    Converter(frozenset({"trade"}), []).add("trades", BlockPart(5, TIME, raw(*events)), BlockProgress(5), batch)
    keys = [record.key for record in batch.records]
    assert keys == [KEY_OF(record.value) for record in batch.records]
    return [json.loads(record.value) for record in batch.records], keys, batch


class TestTradesOfTheNode:
    def test_one_order_meets_two_orders_of_one_maker(self) -> None:
        trades, keys, _ = converted(node_trade(9, 3), node_trade(9, 4), node_trade(9, 5, px="1.6"))
        assert [trade["side_info"][1]["oid"] for trade in trades] == [3, 4, 5]
        assert len(set(keys)) == 3
        assert [trade["trade_index"] for trade in trades] == [0, 1, 2]

    @pytest.mark.parametrize("order", [lambda pair: pair, lambda pair: pair[::-1]], ids=["buyer first", "seller first"])
    @pytest.mark.parametrize(("oids", "taker"), [((9, 3), "B"), ((3, 9), "A")])
    def test_a_trade_that_is_written_once_for_each_side(
        self, oids: tuple[int, int], taker: Side, order: Callable[[Any], Any]
    ) -> None:
        """Nodes of 2024 did this. The taker is the side with the newer order."""
        pair = order([node_trade(*oids, "B"), node_trade(*oids, "A")])
        trades, keys, batch = converted(pair[0], node_trade(1, 2), pair[1])
        assert len(set(keys)) == len(trades) == 2
        assert (trades[0]["side"], trades[0]["users"]) == (taker, [USER, OTHER])
        assert trades[1]["side"] == "B", "one that is written once keeps its side: a trigger order may be the older one"
        assert batch.skipped == {REPEATED_TRADE: 1}

    def test_trades_without_orders_are_never_repeats(self) -> None:
        event = node_trade(1, 2, side_info=[{"user": USER}, {"user": OTHER}])
        batch = ConvertedBatch()
        Converter(frozenset({"trade"}), []).add(
            "trades", BlockPart(5, TIME, raw(event, event)), BlockProgress(5), batch
        )
        assert len(batch.records) == 2
        assert not batch.skipped
