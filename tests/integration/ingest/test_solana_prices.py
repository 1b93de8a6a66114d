"""The price recipe for Orca gives the correct prices of recorded swaps.

The prices are compared with the balance changes of the pools' vaults.

The recipe reads amounts from the transfers, so the balances are an independent source.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from headwater.ingest.solana.blocks import BLOCK
from headwater.ingest.solana.records import records
from headwater.recipes import RECIPES
from tests.support.solana_blocks import FOLDER, Json
from tests.support.v8 import Bench

WHIRLPOOLS = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
SWAP = "f8c69e91e17587c8"
FILES = {
    "block_332254855.getBlock.json.gz": (332254855, 1, 1),
    "block_254170887.getBlock.base64.json.gz": (254170887, 16, 14),
}
"""The number of successful swaps in each recorded block, and of swaps that are the only one of their pool in their
transaction. One transaction sold and bought back a token, so its vaults have only the sum of both swaps."""

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="HEADWATER_TEST_DATA names no folder with recorded data")


class Swap(NamedTuple):
    """A swap.

    Attributes:
        amounts: The balance changes of the vaults of token A and token B.
        place: The position among all executed instructions."""

    transaction: Json
    place: int
    pool: str
    mints: tuple[str, str]
    decimals: tuple[int, int]
    amounts: tuple[int, int]

    @property
    def price(self) -> float:
        """Return the price of token A in token B."""
        a, b = (abs(amount) / 10**decimals for amount, decimals in zip(self.amounts, self.decimals, strict=True))
        return float(b / a)


def read(name: str, slot: int) -> list[Json]:
    block = BLOCK.decode(gzip.decompress((FOLDER / name).read_bytes()))
    assert block is not None
    return [json.loads(record.value) for record in records(block, slot, "solana")]


def swaps(transaction: Json) -> Iterator[Swap]:
    """Return the swaps of a successful transaction."""
    balances: dict[str, list[Any]] = {}
    for kind, at in (("pre_token_balances", 0), ("post_token_balances", 1)):
        for one in transaction[kind]:
            known = balances.setdefault(one["account"], [0, 0, one["mint"], one["decimals"]])
            known[at] = int(one["amount"])
    ran = [*transaction["instructions"], *transaction["inner_instructions"]]
    ran.sort(key=lambda one: (one["instruction_index"], one.get("inner_instruction_index", -1)))
    for place, one in enumerate(ran):
        if transaction["success"] and one["program_id"] == WHIRLPOOLS and one["data_hex"].startswith(SWAP):
            a, b = (balances[one["accounts"][at]] for at in (4, 6))
            yield Swap(transaction, place, one["accounts"][2], (a[2], b[2]), (a[3], b[3]), (a[1] - a[0], b[1] - b[0]))


@pytest.mark.parametrize("name", FILES)
def test_prices_of_recorded_swaps(name: str) -> None:
    slot, count, alone = FILES[name]
    transactions = read(name, slot)
    found = [swap for transaction in transactions for swap in swaps(transaction)]
    assert len(found) == count
    pools = {swap.pool: [swap.mints[0], *swap.decimals, 1, None] for swap in found}
    script = RECIPES["orca"].configuration("solana", "nonvoting_transaction", pools, "")
    bench = Bench()
    kept, failures = bench.run(
        script["pipeline_config"]["transforms"][0]["script"], [json.dumps(one).encode() for one in transactions]
    )
    bench.sandbox.close()
    assert not failures
    ticks = [json.loads(value) for value in kept if value]
    wanted = {
        swap.transaction["txn_index"] * 256 + swap.place: swap
        for swap in found
        if min(map(abs, swap.amounts)) >= 1000  # docs/prices.md: with smaller amounts, rounding changes the price
    }
    assert len(ticks) == len(wanted) == count
    times = Counter((swap.transaction["txn_index"], swap.pool) for swap in found)
    assert sum(number == 1 for number in times.values()) == alone
    for tick in ticks:
        swap = wanted[tick["log_index"]]
        assert tick["token_address"] == swap.mints[0]
        if times[swap.transaction["txn_index"], swap.pool] == 1:
            assert tick["price_usd"] == pytest.approx(swap.price, rel=1e-9)
        assert (tick["chain"], tick["block_number"]) == ("solana", slot)
        assert tick["timestamp"] == swap.transaction["block_timestamp"]
