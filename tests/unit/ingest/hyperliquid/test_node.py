"""A node's folders as streams: several folders, repeats, bad lines, and where a feed begins."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import NodeUnavailable
from headwater.ingest.hyperliquid.node import NodeFeed
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from tests.unit.ingest.hyperliquid.node_files import (
    HASH,
    OTHER,
    TIME,
    TIME_MS,
    USER,
    Reader,
    append,
    at,
    block,
    fill,
    lines,
    order,
    pair,
)

HOUR = "hourly/20260102/3"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, {"from_start": True})


def trade_line(tid: int, time: str = TIME) -> dict[str, Any]:
    """A trade as `node_trades` has it; the price tells which one it is."""
    info = [{"user": USER, "oid": 2}, {"user": OTHER, "oid": 1}]
    return {"coin": "BTC", "side": "B", "time": time, "px": str(tid), "sz": "1", "hash": HASH, "side_info": info}


def fills_at(second: int, *tids: int) -> list[Any]:
    return [half for tid in tids for half in pair(tid, time=at(second)[1], px=str(tid))]


class TestEntities:
    def test_all_of_a_node(self, reader: Reader) -> None:
        misc = {"time": TIME, "hash": HASH, "inner": {"CDeposit": {"user": USER, "amount": "1.0"}}}
        replica = {"abci_block": {"time": TIME, "round": 9, "proposer": USER, "signed_action_bundles": []}}
        append(reader.root / "node_fills_by_block" / HOUR, lines([block(5, pair(1))]))
        append(reader.root / "node_order_statuses_by_block" / HOUR, lines([block(5, [order(), order(2)])]))
        append(reader.root / "misc_events_by_block" / HOUR, lines([block(5, [misc, misc])]))
        append(reader.root / "replica_cmds/2026-01-02T00:00:00Z/20260102/810000", lines([replica, replica]))
        found = [(record.stream, json.loads(record.value)) for record in reader.read()]
        assert [stream for stream, _ in found] == [
            "fill", "fill", "trade", "order", "order", "misc_event", "misc_event", "block", "block",
        ]  # fmt: skip
        assert [value["unique_id"] for stream, value in found if stream == "misc_event"] == ["5-0", "5-1"]
        assert [value["height"] for stream, value in found if stream == "block"] == [810001, 810002]
        assert reader.time_ms == TIME_MS

    def test_only_some(self, tmp_path: Path) -> None:
        reader = Reader(tmp_path, {"from_start": True, "entities": ("trade",)})
        append(tmp_path / "node_fills_by_block" / HOUR, lines([block(5, pair(1))]))
        append(tmp_path / "node_order_statuses_by_block" / HOUR, lines([block(5, [order()])]))
        assert [record.stream for record in reader.read()] == ["trade"]

    def test_a_node_that_writes_one_event_per_line(self, reader: Reader) -> None:
        append(reader.root / "node_fills" / HOUR, lines(pair(1)[:1]))
        append(reader.root / "node_order_statuses" / HOUR, lines([order()]))
        assert [record.stream for record in reader.read()] == ["fill", "order"]
        append(reader.root / "node_fills" / HOUR, lines([*pair(1)[1:], fill(2), fill(3, time=TIME_MS + 1)]))
        (trade,) = reader.values("trade")
        assert (trade["users"], trade["px"], trade["block_number"]) == ([USER, OTHER], "91234.50", None)
        assert reader.skipped == {"fill without its other half": 1}

    def test_a_node_that_streams_the_events_of_a_block(self, reader: Reader) -> None:
        misc = {"time": TIME, "hash": HASH, "inner": {"X": {}}}
        for folder, events in (("node_fills", pair(1)), ("node_misc_events", [misc, misc])):
            append(reader.root / f"{folder}_streaming" / HOUR, lines(block(5, [event]) for event in events))
        found = reader.read()
        assert [record.stream for record in found] == ["fill", "fill", "trade", "misc_event", "misc_event"]
        append(reader.root / "node_misc_events_streaming" / HOUR, lines([block(5, [misc])]))
        assert [event["unique_id"] for event in reader.values("misc_event")] == ["5-2"]


class TestNothingTwice:
    def test_blocks_that_a_node_writes_again(self, reader: Reader) -> None:
        path = reader.root / "node_fills_by_block" / HOUR
        append(path, lines([block(5, pair(1)), block(6, pair(2))]))
        assert len(reader.read()) == 6
        append(path, lines([block(5, pair(1)), block(6, pair(2)), block(7, pair(3))]))
        assert [trade["tid"] for trade in reader.values("trade")] == [3]
        assert reader.skipped == {"repeated block": 4}

    @settings(max_examples=40)
    @given(st.lists(st.sampled_from(["fills", "trades"]), max_size=30), st.booleans())
    def test_trades_that_stand_in_fills_and_in_trades(
        self, tmp_path_factory: pytest.TempPathFactory, turns: list[str], by_block: bool
    ) -> None:
        """The node writes the same trades to both, a line at a time, in any turns; three trades a block."""
        reader = Reader(tmp_path_factory.mktemp("node"), {"from_start": True, "entities": ("trade",)})
        blocks = [(second, range(3 * second, 3 * second + 3)) for second in range(1, 8)]
        fills = reader.root / ("node_fills_by_block" if by_block else "node_fills") / HOUR
        events = [[block(s, fills_at(s, *tids), at(s)[0])] if by_block else fills_at(s, *tids) for s, tids in blocks]
        waiting = {
            "fills": (fills, [event for some in events for event in some]),
            "trades": (
                reader.root / "node_trades" / HOUR,
                [trade_line(t, at(s)[0]) for s, tids in blocks for t in tids],
            ),
        }
        found = []
        for turn in turns:
            path, events_left = waiting[turn]
            append(path, lines(events_left[:1]))
            del events_left[:1]
            found += reader.values("trade")
        for path, events_left in waiting.values():
            append(path, lines(events_left))
        found += reader.values("trade")
        assert sorted(int(trade["px"]) for trade in found) == list(range(3, 24))

    def test_a_node_that_changes_the_form_of_its_lines(self, reader: Reader) -> None:
        append(reader.root / "node_fills_by_block" / HOUR, lines([block(5, fills_at(5, 1), at(5)[0])]))
        assert [trade["tid"] for trade in reader.values("trade")] == [1]
        append(reader.root / "node_fills" / HOUR, lines(fills_at(5, 1) + fills_at(6, 2)))
        assert reader.values("fill") == [], "the preferred folder may yet tell block 6"
        reader.now = 61
        assert [fill["tid"] for fill in reader.values("fill")] == [2, 2]
        assert reader.skipped == {"told by another folder": 2}


class TestBadLines:
    def test_are_counted_and_left_out(self, reader: Reader) -> None:
        good, path = lines([block(5, pair(1))]), reader.root / "node_fills_by_block" / HOUR
        append(path, b"no JSON\n\n" + good + b'{"block_number":"x","events":[]}\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
        assert len(reader.read()) == 3
        assert reader.skipped == {"unreadable line": 4}

    def test_one_bad_event_leaves_its_block(self, reader: Reader) -> None:
        events = [*pair(1), [USER, {"coin": "BTC"}], fill(2, px=1.5), *pair(3)]
        append(reader.root / "node_fills_by_block" / HOUR, lines([block(5, events)]))
        assert len(reader.read()) == 6
        assert reader.skipped == {"unreadable event": 2}

    def test_the_log_names_file_and_offset(self, reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
        first = lines([block(5, [])])
        append(reader.root / "node_fills_by_block" / HOUR, first + b"no JSON\n")
        reader.read()
        told = capsys.readouterr().out
        assert f"node_fills_by_block/{HOUR}" in told
        assert str(len(first)) in told


class TestBegin:
    def test_behind_what_is_there(self, tmp_path: Path) -> None:
        reader, path = Reader(tmp_path), tmp_path / "node_fills_by_block" / HOUR
        append(path, lines([block(5, pair(1))]))
        assert reader.read() == []
        append(path, lines([block(6, pair(2))]))
        assert [trade["tid"] for trade in reader.values("trade")] == [2]

    def test_heights_count_lines_that_were_not_read(self, tmp_path: Path) -> None:
        reader, path = Reader(tmp_path), tmp_path / "replica_cmds/2026-01-02T00:00:00Z/20260102/810000"
        replica = {"abci_block": {"time": TIME, "round": 9, "proposer": USER, "signed_action_bundles": []}}
        append(path, lines([replica] * 7))
        assert reader.read() == []
        append(path, lines([replica]))
        assert [told["height"] for told in reader.values("block")] == [810008]

    def test_the_beginning_is_kept_before_the_first_record(self, tmp_path: Path) -> None:
        append(tmp_path / "node_fills_by_block" / HOUR, lines([block(5, pair(1))]))
        reader = Reader(tmp_path)
        reader.read()
        assert reader.position is not None

    def test_without_the_folder(self, tmp_path: Path) -> None:
        feed = NodeFeed(HyperliquidOptions(name="t", node_data=tmp_path / "nowhere"))
        with pytest.raises(NodeUnavailable, match="no folder"):
            next(feed.steps(None))


def test_a_folder_that_goes_is_told_as_a_gap(reader: Reader) -> None:
    path = reader.root / "node_fills_by_block" / HOUR
    append(path, lines([block(5, pair(1))]))
    reader.read()
    path.unlink()
    assert reader.read() == []
    assert reader.gaps == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "name one source"),
        ({"node_data": "x", "ws": "wss://x"}, "name one source"),
        ({"node_data": "x", "coins": ("BTC",)}, "`coins` is for `ws` alone"),
        ({"ws": "https://x"}, "ws://"),
        ({"ws": "wss://x", "entities": ("fill",)}, "trade or block"),
        ({"ws": "wss://x", "entities": ("trade", "block")}, "trade or block"),
        ({"ws": "wss://x", "from_start": True}, "no past"),
        ({"node_data": "x", "entities": ("log",)}, "misc_event"),
    ],
)
def test_options_that_are_not_valid(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        HyperliquidOptions(name="t", **options)
