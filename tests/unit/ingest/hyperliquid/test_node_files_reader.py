"""The streams of a node's folders are complete.

There are several folders, repeats, invalid lines, and start positions.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headwater.errors import NodeUnavailable
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.hyperliquid.node_files_reader import NodeFilesReader
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from tests.examples import examples
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
    own_trade,
    pair,
    trade_line,
)

HOUR = "hourly/20260102/3"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, {"from_start": True})


def fills_at(second: int, *tids: int) -> list[Any]:
    return [half for tid in tids for half in pair(tid, time=at(second)[1], px=str(tid))]


class TestEntities:
    def test_all_streams_of_a_node(self, reader: Reader) -> None:
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
        assert reader.skipped == {"fill without the fill of the other side": 1}

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

    @pytest.mark.parametrize("restarts", [True, False], ids=["restarted", "running"])
    def test_the_last_block_that_a_node_streams_again(self, reader: Reader, restarts: bool) -> None:
        path, misc = reader.root / "misc_events_streaming" / HOUR, {"time": TIME, "hash": HASH, "inner": {"X": {}}}
        before = [block(number, [misc]) for number in (100, 101)]
        again = [block(number, [misc]) for number in (100, 101, 101, 102)]
        append(path, lines(before))
        found = reader.values("misc_event") if restarts else []
        append(path, lines(again))
        found += reader.values("misc_event")
        assert [event["unique_id"] for event in found] == ["100-0", "101-0", "101-1", "102-0"]
        assert reader.skipped == {"repeated block": 2}

    @example(turns=["trades", *["fills"] * 7], by_block=True)
    @settings(max_examples=examples(40))
    @given(st.lists(st.sampled_from(["fills", "trades"]), max_size=30), st.booleans())
    def test_trades_that_stand_in_fills_and_in_trades(
        self, tmp_path_factory: pytest.TempPathFactory, turns: list[str], by_block: bool
    ) -> None:
        """The node writes the same trades to both folders in any order.

        Each block has three trades.
        """
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
        assert reader.values("fill") == [], "the preferred folder may still have block 6"
        reader.now = 61
        assert [fill["tid"] for fill in reader.values("fill")] == [2, 2]
        assert reader.skipped == {"taken from another folder": 2}


class TestTwins:
    """Nodes of 2024 wrote each trade twice, once for each side."""

    @pytest.mark.parametrize("form", ["", "_streaming", "_by_block"])
    def test_become_one_trade(self, reader: Reader, form: str) -> None:
        path, expected = reader.root / f"node_trades{form}" / HOUR, []
        for second in range(1, 5):
            time, orders = at(second)[0], ((2, 1), (1, 2))[second % 2]
            twins = [own_trade(10 * second + n, time, side, *orders) for n in range(3) for side in "BA"]
            events = twins[::2] + twins[1::2] if second > 2 else twins
            append(path, lines([block(second, events, time)] if form == "_by_block" else events))
            expected += [(10 * second + n, "AB"[orders[0] > orders[1]]) for n in range(3)]
        found = reader.values("trade")
        assert [(int(trade["px"]), trade["side"]) for trade in found] == expected
        assert reader.skipped == {"repeated trade": 12}

    def test_late_lines_are_awaited(self, reader: Reader) -> None:
        """The lines of one time belong together.

        They are read when a line of the next time comes, or after a while.
        """
        path = reader.root / "node_trades" / HOUR
        append(path, lines([own_trade(1, at(1)[0], "A"), own_trade(2, at(2)[0], "A")]))
        reader.idle_yield_s = 0.2
        steps = reader.chain_reader().steps(None)
        found = [json.loads(record.value) for record in [*next_step(steps), *next_step(steps)]]
        assert [int(trade["px"]) for trade in found] == [1]
        append(path, lines([own_trade(2, at(2)[0], "B")]))
        (trade,) = (json.loads(record.value) for record in next_step(steps))
        assert (trade["px"], trade["side"]) == ("2", "B")
        steps.close()  # type: ignore[attr-defined]  # a generator

    def test_very_many_of_one_moment(self, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("folder_reader", "block_merger"):
            monkeypatch.setattr(f"headwater.ingest.hyperliquid.{module}.READ_BYTES", 1000)
        twins = [own_trade(number, TIME, side) for side in "BA" for number in range(50)]
        append(reader.root / "node_trades" / HOUR, lines(twins))
        assert [int(trade["px"]) for trade in reader.values("trade")] == list(range(50))


def next_step(steps: Iterator[Step | None]) -> Sequence[StreamRecord]:
    return next(step for step in steps if step is not None).records


FORMS = ("_by_block", "_streaming", "")


def order_lines(form: str, number: int, orders: list[dict[str, Any]]) -> bytes:
    time = at(number % 60)[0]
    if form == "_by_block":
        return lines([block(number, orders, time)])
    return lines([block(number, [order], time) for order in orders] if form == "_streaming" else orders)


class TestTurns:
    """Events are read from whichever folder has them."""

    @pytest.mark.parametrize("reads", [[], [1], [2, 3], list(range(6))], ids=str)
    @pytest.mark.parametrize("forms", list(permutations(FORMS, 2)), ids=str)
    def test_folders_that_take_turns_by_the_hour(
        self, reader: Reader, forms: tuple[str, str], reads: list[int]
    ) -> None:
        """An ingest may start later.

        It waits for a minute for a folder that may still be written to.
        """
        found: list[int] = []
        for turn in range(6):
            for number in (1 + 2 * turn, 2 + 2 * turn):
                orders = [order(10 * number + n, time=at(number)[0]) for n in range(2)]
                path = reader.root / f"node_order_statuses{forms[turn % 2]}" / f"hourly/20260102/{turn}"
                append(path, order_lines(forms[turn % 2], number, orders))
            if turn in reads:
                reader.now += 61
                found += [event["order"]["oid"] for event in reader.values("order")]
        reader.now += 61
        found += [event["order"]["oid"] for event in reader.values("order")]
        assert found == [10 * number + n for number in range(1, 13) for n in range(2)], "in order, too"
        assert not reader.gaps

    @pytest.mark.parametrize("late", [False, True], ids=["after all turns", "in between"])
    def test_fills_and_the_nodes_own_trades_that_take_turns(self, reader: Reader, late: bool) -> None:
        found: list[Any] = []
        for second in range(1, 9):
            time = at(second)[0]
            if second in (1, 2, 5, 6):
                fills = fills_at(second, second)
                append(reader.root / f"node_fills/hourly/20260102/{second}", lines(fills))
            if second in (2, 3, 4, 6, 7, 8):
                append(reader.root / f"node_trades/hourly/20260102/{second}", lines([own_trade(second, time)]))
            if late:
                reader.now += 61
                found += reader.values("trade")
        reader.now += 61
        found += reader.values("trade")
        assert [int(trade["px"]) for trade in found] == list(range(1, 9))

    @settings(max_examples=examples(60))
    @given(st.data())
    def test_each_block_once(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        """Each block is in some folders, and is read at any time.

        The process continues or restarts.
        """
        reader = Reader(tmp_path_factory.mktemp("node"), {"from_start": True, "entities": ("order",)})
        found, written = list[int](), list[int]()
        for number in range(1, data.draw(st.integers(1, 14))):
            orders = [order(10 * number + n, time=at(number)[0]) for n in range(1 + number % 3)]
            written += [10 * number + n for n in range(len(orders))]
            for form in data.draw(st.sets(st.sampled_from(FORMS), min_size=1)):
                path = reader.root / f"node_order_statuses{form}/hourly/20260102/{number // 4}"
                append(path, order_lines(form, number, orders))
            if data.draw(st.booleans()):
                reader.now += data.draw(st.sampled_from([0, 61]))
                found += [event["order"]["oid"] for event in reader.values("order")]
        reader.now += 61
        found += [event["order"]["oid"] for event in reader.values("order")]
        assert sorted(found) == written


def test_positions_of_older_versions_are_continued(reader: Reader) -> None:
    """Such a position has one time range per folder instead of `covered`.

    The ranges are in the order of preference.
    """
    fills, own = reader.root / "node_fills" / HOUR, reader.root / "node_trades" / HOUR
    append(fills, lines([*fills_at(1, 1), fill(2, time=at(2)[1], px="2")]))
    append(own, lines([own_trade(1, at(1)[0])]))
    found = reader.values("trade")
    position = json.loads(reader.position or b"")
    del position["covered"]
    first, second = at(1)[1], at(2)[1]
    position["spans"] = {"fills": [None, None, [first, second]], "trades": [[first, second], None, None, None]}
    reader.position = json.dumps(position).encode()
    append(fills, lines([fill(2, "A", OTHER, time=second, px="2"), *fills_at(3, 3)]))
    append(own, lines(own_trade(n, at(n)[0]) for n in (2, 3)))
    found += reader.values("trade")
    assert [int(trade["px"]) for trade in found] == [1, 2, 3]
    assert not reader.gaps


class TestGaps:
    def write(self, reader: Reader, *numbers: int, folder: str = "node_fills_by_block", hour: int = 9) -> None:
        blocks = [block(number, [], at(number % 60)[0]) for number in numbers]
        append(reader.root / folder / f"hourly/20260430/{hour}", lines(blocks))

    def test_blocks_that_the_node_never_wrote(self, reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
        self.write(reader, 100, 101, 1900)
        reader.read()
        assert reader.gaps == 1
        assert "blocks 102 to 1899 are missing" in capsys.readouterr().out

    def test_a_gap_across_files_and_a_restart(self, reader: Reader) -> None:
        self.write(reader, 100, 101)
        reader.read()
        self.write(reader, 103, hour=10)
        reader.read()
        assert reader.gaps == 1

    @pytest.mark.parametrize("folder", ["node_order_statuses_by_block", "misc_events_by_block", "node_trades_by_block"])
    def test_of_other_events(self, reader: Reader, folder: str) -> None:
        self.write(reader, 100, 101, 1900, folder=folder)
        reader.read()
        assert reader.gaps == 1

    def test_of_blocks(self, reader: Reader) -> None:
        replica = {"abci_block": {"time": TIME, "round": 9, "proposer": USER, "signed_action_bundles": []}}
        for first in (10, 12, 20):
            append(reader.root / f"replica_cmds/2026-01-02T00:00:00Z/20260102/{first}", lines([replica] * 2))
        assert [event["height"] for event in reader.values("block")] == [11, 12, 13, 14, 21, 22]
        assert reader.gaps == 1

    def test_a_first_start_and_blocks_that_are_written_again_are_none(self, reader: Reader) -> None:
        self.write(reader, 100, 101, 102, 101, 102, 103)
        reader.read()
        assert reader.gaps == 0

    def test_a_folder_without_lines_for_empty_blocks(self, reader: Reader) -> None:
        self.write(reader, 100, 5000, 14_000, folder="node_fills_streaming")
        events = [{"time": TIME, "hash": HASH, "inner": {"X": {}}}]
        append(reader.root / "misc_events_by_block/hourly/20260430/9", lines([block(n, events) for n in (100, 1900)]))
        reader.read()
        assert reader.gaps == 0
        self.write(reader, 30_000, folder="node_fills_streaming")
        reader.read()
        assert reader.gaps == 1

    def test_blocks_that_another_folder_has_are_no_gap(self, reader: Reader) -> None:
        self.write(reader, 1, 2)
        append(reader.root / "node_fills/hourly/20260102/3", lines(fills_at(3, 1)))
        self.write(reader, 4, hour=10)
        reader.read()
        assert reader.gaps == 0


class TestPacked:
    @staticmethod
    def pack(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pa.compress(data, "lz4", asbytes=True))

    def test_archives_that_overlap(self, reader: Reader) -> None:
        """The public archive has compressed folders.

        Each of them overlaps the previous one by an hour.
        """
        hours = range(1, 10)
        own = lines(own_trade(hour, at(hour)[0]) for hour in hours if hour <= 4)
        for hour in hours:
            if hour <= 4:
                self.pack(reader.root / f"node_trades/hourly/20250525/{hour}.lz4", own.splitlines(True)[hour - 1])
            if 4 <= hour <= 7:
                self.pack(reader.root / f"node_fills/hourly/20250525/{hour}.lz4", lines(fills_at(hour, hour)))
            if hour >= 7:
                events = fills_at(hour, hour)
                self.pack(reader.root / f"node_fills_by_block/hourly/20250728/{hour}.lz4",
                          lines([block(hour, events, at(hour)[0])]))  # fmt: skip
        found = [json.loads(record.value) for record in reader.read()]
        assert [int(one["px"]) for one in found if "users" in one] == list(hours)
        assert [int(one["px"]) for one in found if "user" in one] == [hour for hour in range(4, 10) for _ in "AB"]
        assert reader.read() == []

    def test_a_damaged_file_waits_for_a_whole_one(self, reader: Reader) -> None:
        path = reader.root / "node_fills_by_block/hourly/20250728/9.lz4"
        blocks = lines(block(number, fills_at(number, number), at(number)[0]) for number in range(1, 9))
        self.pack(path, blocks)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(NodeUnavailable, match=r"9\.lz4 can't be decompressed: .* Replace it by a complete file"):
            reader.read()
        path.write_bytes(whole)
        assert [trade["tid"] for trade in reader.values("trade")] == list(range(1, 9))


class TestBadLines:
    def test_are_counted_and_left_out(self, reader: Reader) -> None:
        good, path = lines([block(5, pair(1))]), reader.root / "node_fills_by_block" / HOUR
        append(path, b"no JSON\n\n" + good + b'{"block_number":"x","events":[]}\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
        assert len(reader.read()) == 3
        assert reader.skipped == {"unreadable line": 4}

    def test_an_invalid_event_does_not_affect_its_block(self, reader: Reader) -> None:
        events = [*pair(1), [USER, {"coin": "BTC"}], fill(2, px=1.5), *pair(3)]
        append(reader.root / "node_fills_by_block" / HOUR, lines([block(5, events)]))
        assert len(reader.read()) == 6
        assert reader.skipped == {"unreadable event": 2}

    def test_the_log_names_file_and_offset(self, reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
        first = lines([block(5, [])])
        append(reader.root / "node_fills_by_block" / HOUR, first + b"no JSON\n")
        reader.read()
        output = capsys.readouterr().out
        assert f"node_fills_by_block/{HOUR}" in output
        assert str(len(first)) in output


class TestBegin:
    def test_a_feed_starts_after_existing_lines(self, tmp_path: Path) -> None:
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
        assert [event["height"] for event in reader.values("block")] == [810008]

    def test_the_beginning_is_kept_before_the_first_record(self, tmp_path: Path) -> None:
        append(tmp_path / "node_fills_by_block" / HOUR, lines([block(5, pair(1))]))
        reader = Reader(tmp_path)
        reader.read()
        assert reader.position is not None

    def test_without_the_folder(self, tmp_path: Path) -> None:
        reader = NodeFilesReader(HyperliquidOptions(name="t", node_data=tmp_path / "nowhere"))
        with pytest.raises(NodeUnavailable, match="does not exist"):
            next(reader.steps(None))

    def test_a_folder_without_those_of_a_node_is_named_in_the_log(self, reader: Reader) -> None:
        with capture_logs() as lines_without:
            reader.read()
        append(reader.root / "node_fills_by_block" / HOUR, lines([block(5, pair(1))]))
        with capture_logs() as lines_with:
            reader.read()
        (line,) = lines_without
        assert line["node_data"] == str(reader.root)
        assert {"node_fills_by_block", "replica_cmds"} <= set(line["one_of"])
        assert lines_with == []


def test_a_removed_folder_is_reported_as_a_gap(reader: Reader) -> None:
    path = reader.root / "node_fills_by_block" / HOUR
    append(path, lines([block(5, pair(1))]))
    reader.read()
    path.unlink()
    with capture_logs() as logged:
        assert reader.read() == []
    assert reader.gaps == 1
    [loss] = [line for line in logged if line["event"] == "lines are lost"]
    assert loss["file"] == f"node_fills_by_block/{HOUR}"
    assert "the file was removed" in loss["reason"]


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
