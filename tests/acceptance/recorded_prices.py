"""Reads recorded trades of a day, as (time in ms, order, price).

They are in the directory that HEADWATER_TEST_DATA names.

Prices are computed by the documentation of the exchanges. This module shares no code with the package.
"""

import csv
import gzip
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

Trade = tuple[int, int, float]
BLOCK = 1 << 24
"""The order of a trade is block number × BLOCK + position in the block."""


def uniswap_day(folder: Path) -> list[Trade]:
    """Return the price in USDC per WETH of every swap in one pool on 2024-01-05."""
    file = folder / "prices" / "ethereum_univ3_usdc_weth_2024-01-05.tick.csv.gz"
    rows = csv.DictReader(io.StringIO(gzip.decompress(file.read_bytes()).decode()))
    trades = []
    for row in rows:
        if row["tx_type"] == "SWAP":
            at = datetime.fromisoformat(row["block_timestamp"]).replace(tzinfo=UTC)
            price = 1e12 / (int(row["sqrtPriceX96"]) / 2**96) ** 2
            trades.append((int(at.timestamp() * 1000), int(row["block_number"]) * BLOCK + _place(row), price))
    return sorted(trades)


def _place(row: dict[str, str]) -> int:
    return int(float(row["pool_log_index"]))


def orca_day(folder: Path) -> dict[str, list[Trade]]:
    """Return the price of token A in token B of every swap on 2022-04-06, by pool."""
    pools = {pool["whirlpool"]: pool for pool in json.loads((folder / "solana" / "orca_pools.json").read_text())}
    trades_by_pool: defaultdict[str, list[Trade]] = defaultdict(list)
    for slot, time, index, swaps in orca_swaps(folder):
        for number, swap in enumerate(swaps):
            pool = pools[swap["keyWhirlpool"]]
            amount_in, amount_out = int(swap["transferAmount0"]), int(swap["transferAmount1"])
            a, b = (amount_in, amount_out) if swap["dataAToB"] else (amount_out, amount_in)
            if a and b:
                price = (b / 10 ** pool["decimals_b"]) / (a / 10 ** pool["decimals_a"])
                trades_by_pool[pool["whirlpool"]].append((time * 1000, slot * BLOCK + index * 256 + number, price))
    return {pool: sorted(trades) for pool, trades in trades_by_pool.items()}


def orca_swaps(folder: Path) -> Iterator[tuple[int, int, int, list[dict[str, str]]]]:
    """Yield slot, time in s, index in the slot and swaps of each transaction with swaps."""
    file = folder / "solana" / "orca_whirlpool_transactions_20220406.jsonl.gz"
    for line in gzip.decompress(file.read_bytes()).splitlines():
        block = json.loads(line)
        for transaction in block["transactions"]:
            swaps = [each["payload"] for each in transaction["instructions"] if each["name"] == "swap"]
            if swaps:
                yield block["slot"], block["blockTime"], transaction["index"], swaps
