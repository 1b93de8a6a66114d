"""Writes the directory of a node, and reads it with the chain reader."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid.node_files_reader import NodeFilesReader
from headwater.ingest.hyperliquid.options import HyperliquidOptions

USER = "0x" + "a" * 40
OTHER = "0x" + "b" * 40
HASH = "0x" + "1" * 64
TIME_MS = 1_767_323_045_678
TIME = "2026-01-02T03:04:05.678901234"


def fill(tid: int = 1, side: str = "B", user: str = USER, **members: Any) -> list[Any]:
    fill_members = {
        "coin": "BTC", "px": "91234.50", "sz": "0.250", "side": side, "time": TIME_MS, "startPosition": "0.0",
        "dir": "Open Long", "closedPnl": "0.0", "hash": HASH, "oid": 7, "crossed": side == "B", "fee": "0.1",
        "tid": tid, "feeToken": "USDC", "twapId": None,
    }  # fmt: skip
    return [user, fill_members | members]


def pair(tid: int, **members: Any) -> list[Any]:
    return [fill(tid, **members), fill(tid, "A", OTHER, **members)]


def trade_line(tid: int, time: str = TIME) -> dict[str, Any]:
    """Return a trade of `node_trades`, which is identified by its price."""
    info = [{"user": USER, "oid": 2}, {"user": OTHER, "oid": 1}]
    return {"coin": "BTC", "side": "B", "time": time, "px": str(tid), "sz": "1", "hash": HASH, "side_info": info}


def own_trade(number: int, time: str, side: str = "B", buyer: int = 2, seller: int = 1) -> dict[str, Any]:
    """Return a trade of `node_trades`, which is identified by its price."""
    info = [{"user": USER, "oid": 10 * number + buyer}, {"user": OTHER, "oid": 10 * number + seller}]
    return trade_line(number, time) | {"side": side, "side_info": info}


def order(oid: int = 1, status: str = "open", **members: Any) -> dict[str, Any]:
    return {"time": TIME, "user": USER, "hash": None, "builder": None, "status": status,
            "order": {"coin": "BTC", "oid": oid, "children": []}} | members  # fmt: skip


def block(number: int, events: list[Any], time_: str = TIME) -> dict[str, Any]:
    return {"local_time": time_, "block_time": time_, "block_number": number, "events": events}


def at(second: int) -> tuple[str, int]:
    """Return a block's time in the node's format and in ms."""
    return f"2026-01-02T03:04:{second:02}.000000001", TIME_MS - 5678 + second * 1000


def lines(events: Iterable[object]) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def append(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


@dataclass
class Reader:
    """Reads a node's directory until there is nothing new.

    Each call continues with a new chain reader.
    """

    root: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    position: bytes | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    gaps: int = 0
    time_ms: int = 0
    now: float = 0.0
    """The offset of the clock in seconds."""
    idle_yield_s: float = 0.0

    def chain_reader(self) -> NodeFilesReader:
        options = HyperliquidOptions(name="t", node_data=self.root, **self.options)
        return NodeFilesReader(options, lambda: time.time() + self.now, idle_yield_s=self.idle_yield_s)

    def read(self) -> list[StreamRecord]:
        found: list[StreamRecord] = []
        steps = self.chain_reader().steps(self.position)
        for step in steps:
            if step is None:
                break
            found += step.records
            self.position, self.gaps = step.position, self.gaps + step.gaps
            self.skipped.update(step.skipped)
            self.time_ms = max(self.time_ms, step.time_ms)
        steps.close()  # type: ignore[attr-defined]  # a generator
        return found

    def values(self, stream: str) -> list[Any]:
        return [json.loads(record.value) for record in self.read() if record.stream == stream]
