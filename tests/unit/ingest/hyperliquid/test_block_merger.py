"""The lines of one trade of a node are awaited before its block is taken."""

import json
import time
from pathlib import Path

import pytest

from headwater.ingest.hyperliquid.block_merger import FOLDERS, BlockMerger, FolderBlocks
from headwater.ingest.hyperliquid.conversion import Converter
from headwater.ingest.hyperliquid.folder_reader import FolderReader
from headwater.ingest.hyperliquid.position import BlockProgress, Coverage, FolderPosition, SeenBlocks
from tests.unit.ingest.hyperliquid.node_files import append, at, lines, own_trade

QUIET_S = 60.0


class Clock:
    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_each_block_is_awaited_for_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("headwater.ingest.hyperliquid.block_merger.time", clock)
    spec = next(spec for spec in FOLDERS["trades"] if spec.form == "event")
    files = FolderReader(tmp_path / spec.name, FolderPosition(), time.time)
    folder = FolderBlocks(spec=spec, reader=files, last_taken=BlockProgress(), newest_ms=None, quiet_s=QUIET_S)
    merger = BlockMerger(
        [folder], {"trades": Coverage()}, {"trades": SeenBlocks()}, Converter(frozenset({"trade"}), ())
    )

    def trades_after(second: int, side: str, wait_s: float) -> list[tuple[str, str]] | None:
        append(tmp_path / spec.name / "hourly/20260102/3", lines([own_trade(second, at(second)[0], side)]))
        files.scan()
        assert merger.read() is None
        clock.seconds += wait_s
        batch = merger.read()
        trades = [json.loads(record.value) for record in batch.records] if batch else []
        return [(trade["px"], trade["side"]) for trade in trades]

    assert trades_after(1, "A", QUIET_S) == [("1", "A")]
    assert trades_after(2, "A", QUIET_S / 2) == []
    assert trades_after(2, "B", QUIET_S) == [("2", "B")]
