"""Converts the lines of a Hyperliquid node to records on one core.

`python -m benches.ingest_hyperliquid` runs it.

The lines resemble recorded ones: blocks of fills, of order statuses and of misc events, read from files. The reference
is a minimal converter with Python's own JSON: `json.loads` of the line and `json.dumps` of each event with its block
number. The records are checked against the output of the reference.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from headwater.ingest.hyperliquid.node_files_reader import NodeFilesReader
from headwater.ingest.hyperliquid.options import Entity, HyperliquidOptions

ROUNDS = 5
EVENTS_PER_BLOCK = 100
TIME = "2026-04-30T20:46:43.304461819"
TIME_MS = 1_777_582_003_304


def user(number: int) -> str:
    """Return an address that is unique to a number."""
    return f"0x{number:040x}"


def fill(block: int, number: int) -> list[Any]:
    """Return one of the two fills of a trade: numbers 2n and 2n + 1 are the same trade."""
    trade, side = divmod(number, 2)
    return [user(number), {
        "coin": "km:USTECH", "px": "589.32", "sz": "3.5", "side": "AB"[side], "time": TIME_MS + block,
        "startPosition": "952.021", "dir": "Open Long", "closedPnl": "0.0", "hash": f"0x{block:064x}",
        "oid": 349_162_657_552 + number, "crossed": side == 1, "fee": "-0.002578", "tid": 10**14 + block * 1000 + trade,
        "cloid": f"0x{number:032x}", "feeToken": "USDH", "twapId": None,
    }]  # fmt: skip


def order(block: int, number: int) -> dict[str, Any]:
    """Return an order status. The order was rejected, like most recorded orders."""
    return {
        "time": TIME, "user": user(number), "hash": None, "builder": None, "status": "badAloPxRejected",
        "order": {
            "coin": "BTC", "side": "A", "limitPx": "76466.0", "sz": "0.0686", "oid": 405_401_002_864 + number,
            "timestamp": TIME_MS, "triggerCondition": "N/A", "isTrigger": False, "triggerPx": "0.0", "children": [],
            "isPositionTpsl": False, "reduceOnly": False, "orderType": "Limit", "origSz": "0.0686", "tif": "Alo",
            "cloid": f"0x{block:032x}",
        },
    }  # fmt: skip


def misc(block: int, number: int) -> dict[str, Any]:
    """Return a misc event: a transfer between two users."""
    delta = {"type": "send", "user": user(number), "destination": user(block), "token": "USDC", "amount": "500.008953"}
    return {"time": TIME, "hash": f"0x{number:064x}", "inner": {"LedgerUpdate": {"users": [], "delta": delta}}}


EventFactory = Callable[[int, int], Any]
CASES: dict[str, tuple[str, tuple[Entity, ...], EventFactory]] = {
    "fills": ("node_fills_by_block", ("fill",), fill),
    "fills and their trades": ("node_fills_by_block", ("fill", "trade"), fill),
    "order statuses": ("node_order_statuses_by_block", ("order",), order),
    "misc events": ("misc_events_by_block", ("misc_event",), misc),
}


def write(folder: Path, make: EventFactory, events: int) -> Path:
    """Write a file of blocks in the node's format, and return its path."""
    folder.mkdir(parents=True)
    with (folder / "20").open("w") as file:
        for number in range(events // EVENTS_PER_BLOCK):
            block = {"local_time": TIME, "block_time": TIME, "block_number": 978_995_377 + number,
                     "events": [make(number, n) for n in range(EVENTS_PER_BLOCK)]}  # fmt: skip
            file.write(json.dumps(block, separators=(",", ":")) + "\n")
    return folder / "20"


def reference(path: Path) -> Iterator[str]:
    """Yield each event with its block number, converted by Python's own JSON."""
    with path.open("rb") as file:
        for line in file:
            block = json.loads(line)
            for event in block["events"]:
                record = {"user": event[0], **event[1]} if isinstance(event, list) else event
                yield json.dumps({**record, "block_number": block["block_number"]}, separators=(",", ":"))


def ingest(root: Path, entities: tuple[Entity, ...]) -> list[bytes]:
    """Return the records that the reader reads for the first entity in a node's directory."""
    options = HyperliquidOptions(name="bench", node_data=root, entities=entities, from_start=True)
    values: list[bytes] = []
    for step in NodeFilesReader(options, idle_yield_s=0.0).steps(None):
        if step is None:
            break
        values += [record.value for record in step.records if record.stream == entities[0]]
    return values


def check(path: Path, actual: list[bytes]) -> None:
    """Assert that the reader gives the reference's events.

    The reader adds an id to misc events.
    """
    expected = list(reference(path))
    assert len(actual) == len(expected)
    for value, expected_value in zip(actual, expected, strict=True):
        record = json.loads(value)
        record.pop("unique_id", None)
        assert record == json.loads(expected_value)


def seconds(work: Callable[[], object]) -> float:
    """Return the median CPU time over ROUNDS runs, in seconds."""
    durations = []
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        durations.append(time.process_time() - before)
    return statistics.median(durations)


def main(events: int = 100_000) -> None:
    """Measure every case."""
    for name, (folder, entities, make) in CASES.items():
        with tempfile.TemporaryDirectory() as directory:
            path = write(Path(directory) / folder / "hourly/20260430", make, events)
            check(path, ingest(Path(directory), entities))
            plain = seconds(lambda path=path: sum(1 for _ in reference(path)))  # type: ignore[misc]
            took = seconds(lambda: ingest(Path(directory), entities))  # noqa: B023  # used within the loop
            size = path.stat().st_size / 1e6
            typer.echo(
                f"{name:30} {events / took / 1000:6.0f} k events/s per core, {size / took:4.0f} MB/s;"
                f" json.loads and json.dumps: {events / plain / 1000:4.0f} k; {plain / took:.1f} x"
            )


if __name__ == "__main__":
    typer.run(main)
