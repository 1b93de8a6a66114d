"""Writes files like a Hyperliquid node.

Lines are partial for a moment, each hour has a file, and several folders are written concurrently.
"""

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCKS_PER_HOUR = 40
FIRST_HOUR = 21
FIRST_BLOCK = 978_000_000
FIRST_MS = 1_777_582_000_000


def block_time(number: int) -> tuple[str, int]:
    """Return a block's time in the node's format and in ms."""
    ms = FIRST_MS + 70 * (number - FIRST_BLOCK)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}000123", ms


def user(number: int) -> str:
    return f"0x{number:040x}"


@dataclass
class HyperliquidNode:
    """A simulated node.

    Attributes:
        root: The directory to which the node writes.
        seed: The seed of all random choices.
        expected: The expected records of each stream, in order.
        next: The number of the next block.
    """

    root: Path
    seed: int
    expected: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _random: random.Random = field(init=False)
    next: int = FIRST_BLOCK

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def write(self, blocks: int, pause_s: float) -> None:
        """Write the next blocks.

        Lines are written in two parts; at the hour, both files have a partial line.
        """
        held: list[tuple[Path, bytes]] = []
        for number in range(self.next, self.next + blocks):
            lines = self._lines(number)
            self._random.shuffle(lines)
            halves = [(self._path(folder, number), line[: len(line) // 3]) for folder, line in lines]
            rests = [(folder, self._path(folder, number), line[len(line) // 3 :]) for folder, line in lines]
            last = [(path, rest) for folder, path, rest in rests if self._path(folder, number + 1) != path]
            rest = [(path, rest) for folder, path, rest in rests if self._path(folder, number + 1) == path]
            for path, data in (*halves, *held, *rest):
                self._append(path, data)
                time.sleep(pause_s)
            held = last
        for path, data in held:
            self._append(path, data)
        self.next += blocks

    def write_large_event(self, size: int) -> None:
        """Write the next block with one event of this size.

        The other folders do not get the block.
        """
        iso, _ = block_time(self.next)
        event = {"time": iso, "hash": "0x" + "0" * 64, "inner": {"CDeposit": {"user": user(1), "amount": "1" * size}}}
        self._append(self._path("misc_events_by_block", self.next), self._block(self.next, iso, [event]))
        self.next += 1

    def _path(self, folder: str, number: int) -> Path:
        if folder == "replica_cmds":  # a file is named after the block before its first block
            number = (number - 1) // BLOCKS_PER_HOUR * BLOCKS_PER_HOUR
        hour = FIRST_HOUR + (number - FIRST_BLOCK) // BLOCKS_PER_HOUR
        day = time.strftime("%Y%m%d", time.gmtime(FIRST_MS // 1000 + hour // 24 * 86_400))
        if folder == "replica_cmds":
            return self.root / folder / "2026-04-30T20:00:00Z" / day / str(number)
        return self.root / folder / "hourly" / day / str(hour % 24)

    @staticmethod
    def _append(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)

    def _lines(self, number: int) -> list[tuple[str, bytes]]:
        iso, ms = block_time(number)
        lines = [
            ("node_fills_by_block", self._block(number, iso, self._fills(number, ms))),
            ("node_order_statuses_by_block", self._block(number, iso, self._orders(number, iso))),
            ("misc_events_by_block", self._block(number, iso, self._misc(number, iso))),
        ]
        if number > FIRST_BLOCK:
            lines.append(("replica_cmds", self._replica(number, iso, ms)))
        return lines

    @staticmethod
    def _block(number: int, iso: str, events: list[Any]) -> bytes:
        block = {"local_time": iso, "block_time": iso, "block_number": number, "events": events}
        return json.dumps(block, separators=(",", ":")).encode() + b"\n"

    def _expect(self, stream: str, record: dict[str, Any]) -> None:
        self.expected.setdefault(stream, []).append(record)

    def _fills(self, number: int, ms: int) -> list[Any]:
        events: list[Any] = []
        for n in range(self._random.randrange(4)):
            common = {"coin": self._random.choice(["BTC", "@107", "xyz:NFLX"]), "px": f"{self._random.random():.5f}",
                      "sz": f"{n + 1}.10", "time": ms, "hash": f"0x{number:060x}{n:04x}", "tid": number * 100 + n,
                      "dir": "Buy", "closedPnl": "0.0", "fee": "-0.10", "feeToken": "USDC", "twapId": None}  # fmt: skip
            taker = self._random.choice("AB")
            users = {"B": user(10 * number + n), "A": user(10 * number + n + 5)}
            for side in self._random.sample("AB", 2):
                fill = {
                    **common,
                    "side": side,
                    "startPosition": "0.0",
                    "oid": number * 10 + n,
                    "crossed": side == taker,
                }
                events.append([users[side], fill])
                self._expect("fill", {"user": users[side], **fill, "block_number": number})
            trade = {name: common[name] for name in ("coin", "px", "sz", "time", "hash", "tid")}
            self._expect("trade", {**trade, "side": taker, "users": [users["B"], users["A"]], "block_number": number,
                                 "trade_index": len(events) - 1})  # fmt: skip
        return events

    def _orders(self, number: int, iso: str) -> list[Any]:
        events = [
            {"time": iso, "user": user(n), "hash": None, "builder": None, "status": "open",
             "order": {"coin": "BTC", "oid": number * 100 + n, "limitPx": "1.10", "children": []}}
            for n in range(self._random.randrange(12))
        ]  # fmt: skip
        for event in events:
            self._expect("order", {**event, "block_number": number})
        return events

    def _misc(self, number: int, iso: str) -> list[Any]:
        events = [
            {"time": iso, "hash": "0x" + "0" * 64, "inner": {"CDeposit": {"user": user(n), "amount": "1.50"}}}
            for n in range(self._random.randrange(3))
        ]
        for index, event in enumerate(events):
            self._expect("misc_event", {**event, "block_number": number, "unique_id": f"{number}-{index}"})
        return events

    def _replica(self, number: int, iso: str, ms: int) -> bytes:
        count = self._random.randrange(5)
        bundle = {"signed_actions": [{"signature": {}, "action": {"type": "order"}, "nonce": ms}] * count}
        block = {"time": iso, "round": number + 278, "proposer": user(9), "signed_action_bundles": [["0x1", bundle]]}
        self._expect("block", {"height": number, "blockTime": ms, "hash": None, "proposer": user(9), "numTxs": count})
        return json.dumps({"abci_block": block, "resps": {"Full": []}}).encode() + b"\n"
