"""Recorded trades of a day, from the folder that HEADWATER_TEST_DATA names, as (time in ms, order, price).

Prices are computed here as the sources' own documentation has it; nothing is shared with the package.
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
"""Orders are block number × BLOCK + place in the block."""


def uniswap_day(folder: Path) -> list[Trade]:
    """USDC per WETH in every swap of one pool of 2024-01-05."""
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
    """The price of token A in token B in every swap of 2022-04-06, by pool."""
    pools = {pool["whirlpool"]: pool for pool in json.loads((folder / "solana" / "orca_pools.json").read_text())}
    found: defaultdict[str, list[Trade]] = defaultdict(list)
    for slot, time, index, swaps in orca_swaps(folder):
        for number, swap in enumerate(swaps):
            pool = pools[swap["keyWhirlpool"]]
            amount_in, amount_out = int(swap["transferAmount0"]), int(swap["transferAmount1"])
            a, b = (amount_in, amount_out) if swap["dataAToB"] else (amount_out, amount_in)
            if a and b:
                price = (b / 10 ** pool["decimals_b"]) / (a / 10 ** pool["decimals_a"])
                found[pool["whirlpool"]].append((time * 1000, slot * BLOCK + index * 256 + number, price))
    return {pool: sorted(trades) for pool, trades in found.items()}


def orca_swaps(folder: Path) -> Iterator[tuple[int, int, int, list[dict[str, str]]]]:
    """(slot, time in s, index in the slot, swaps) of each transaction that has some."""
    file = folder / "solana" / "orca_whirlpool_transactions_20220406.jsonl.gz"
    for line in gzip.decompress(file.read_bytes()).splitlines():
        block = json.loads(line)
        for transaction in block["transactions"]:
            swaps = [one["payload"] for one in transaction["instructions"] if one["name"] == "swap"]
            if swaps:
                yield block["slot"], block["blockTime"], transaction["index"], swaps
