"""Positions have time ranges by folder and ranges of block numbers.

Positions of older versions can be read.
"""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.hyperliquid.position import (
    MAX_RANGES,
    MAX_SPANS,
    Coverage,
    FilePosition,
    SeenBlocks,
    Span,
    read_node_position,
    read_websocket_position,
)


class TestCoverage:
    @given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.integers(0, 40), st.booleans()), max_size=60))
    def test_blocks_that_were_taken_are_known_to_the_other_folders(self, found: list[tuple[int, int, bool]]) -> None:
        coverage, taken = Coverage(), dict[int, int]()
        for rank, time_ms, is_contiguous in found:
            if not coverage.is_taken_from_other(rank, time_ms):
                taken.setdefault(time_ms, rank)
                coverage.record(rank, time_ms, is_contiguous)
            stored = msgspec.json.decode(msgspec.json.encode(coverage.spans), type=list[Span])
            coverage = Coverage(stored)
            for time, first in taken.items():
                assert all(coverage.is_taken_from_other(other, time) for other in {0, 1, 2} - {first, rank})
            assert all(a.last < b.first for a, b in zip(coverage.spans, coverage.spans[1:], strict=False))

    def test_alternating_folders_leave_no_gap(self) -> None:
        coverage = Coverage()
        for hour in range(6):
            for minute in range(3):
                coverage.record(hour % 2, hour * 100 + minute)
        assert [tuple(span) for span in coverage.spans] == [(n % 2, n * 100, n * 100 + 2) for n in range(6)]
        assert coverage.is_taken_from_other(1, 201)
        assert not coverage.is_taken_from_other(1, 301), "the folder's own blocks"
        assert not coverage.is_taken_from_other(1, 250), "between the turns nothing was taken"
        assert (coverage.is_newest_from(0), coverage.is_newest_from(1)) == (False, True)

    def test_a_gap_is_open_to_other_folders(self) -> None:
        coverage = Coverage()
        coverage.record(0, 10)
        coverage.record(0, 20)
        coverage.record(0, 50, is_contiguous=False)
        assert [coverage.is_taken_from_other(1, time) for time in (15, 30, 50)] == [True, False, True]
        coverage.record(1, 30)
        assert coverage.is_taken_from_other(0, 30)
        assert [span.rank for span in coverage.spans] == [0, 1, 0]

    def test_the_oldest_spans_are_joined(self) -> None:
        coverage = Coverage()
        for turn in range(3 * MAX_SPANS):
            coverage.record(turn % 2, turn * 10)
        assert len(coverage.spans) == MAX_SPANS
        assert coverage.is_taken_from_other(0, 15)
        assert coverage.is_taken_from_other(1, 15)
        assert not coverage.is_taken_from_other(0, 3 * MAX_SPANS * 10 - 5)


class TestSeenBlocks:
    @given(st.lists(st.integers(0, 40), max_size=60))
    def test_a_block_is_new_only_once(self, numbers: list[int]) -> None:
        seen, known = SeenBlocks(), set[int]()
        for number in numbers:
            assert seen.add(number) == (number not in known)
            known.add(number)
            assert {n for first, last in seen.ranges for n in range(first, last + 1)} == known
            assert all(a[1] + 1 < b[0] for a, b in zip(seen.ranges, seen.ranges[1:], strict=False)), "ranges are joined"

    def test_few_ranges_are_kept_and_the_newest_are_exact(self) -> None:
        seen = SeenBlocks()
        assert all(seen.add(number) for number in range(0, 1000, 2))
        assert len(seen.ranges) == MAX_RANGES
        assert seen.ranges[0] == (0, 998 - 2 * (MAX_RANGES - 1))
        assert seen.add(997)
        assert not SeenBlocks(seen.ranges).add(997)
        assert not seen.add(3), "far below, a hole counts as seen"


def test_a_nodes_position_of_an_older_version() -> None:
    stored = {
        "tails": {"node_fills_by_block": {"floor": "hourly/1", "places": {"hourly/2": [77, 1000, 5, 99]}}},
        "turns": {"node_fills_by_block": [12, 0]},
        "spans": {"fills": [[10, 20], None, [30, 40]]},
        "seen": {"fills": [[5, 12]]},
        "halves": [["0xa", "B", True, [40, "BTC", 7], "1.5", "2", "0x1", 12]],
    }
    position = read_node_position(json.dumps(stored).encode(), "mine")
    assert position.folders["node_fills_by_block"].files == {"hourly/2": FilePosition(77, 1000, 5, 99)}
    assert position.last_blocks["node_fills_by_block"].key == 12
    assert position.coverage("fills").spans == [Span(0, 10, 20), Span(2, 30, 40)]
    assert position.coverage("orders").spans == []
    assert position.seen == {"fills": [(5, 12)]}
    assert position.unmatched_fills[0].trade_key == (40, "BTC", 7)


def test_a_websocket_position_of_an_older_version() -> None:
    position = read_websocket_position(b'{"marks":{"BTC":[5000,[1,2]]},"height":9}', "mine")
    assert (position.coins["BTC"].time, position.coins["BTC"].tids, position.height) == (5000, [1, 2], 9)
