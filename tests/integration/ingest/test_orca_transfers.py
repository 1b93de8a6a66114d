"""The price recipe for Orca matches transfers with swaps correctly.

Transfers with a fee have another form.
"""

import json
from typing import Any

from headwater.recipes import RECIPES
from tests.support.v8 import Bench

WHIRLPOOLS = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
TOKEN_PROGRAM, TOKEN_2022 = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
POOLS = {"pool": ["SoL", 9, 6, 1, None]}


def swap(pool: str, vaults: tuple[str, str]) -> dict[str, Any]:
    accounts = [TOKEN_PROGRAM, "owner", pool, "own-a", vaults[0], "own-b", vaults[1]]
    return {"program_id": WHIRLPOOLS, "accounts": accounts, "data_hex": "f8c69e91e17587c8" + "00" * 34}


def transfer(amount: int, source: str, destination: str) -> dict[str, Any]:
    data = "03" + amount.to_bytes(8, "little").hex()
    return {"program_id": TOKEN_PROGRAM, "accounts": [source, destination, "owner"], "data_hex": data}


def transfer_with_fee(amount: int, source: str, destination: str) -> dict[str, Any]:
    data = "1a01" + amount.to_bytes(8, "little").hex() + "09" + "00" * 8
    return {"program_id": TOKEN_2022, "accounts": [source, "mint", destination, "owner"], "data_hex": data}


def prices(*instructions: dict[str, Any]) -> list[float]:
    outer = [one | {"instruction_index": number} for number, one in enumerate(instructions)]
    record = {"block_slot": 1, "txn_index": 0, "success": True, "instructions": outer, "inner_instructions": []}
    body = RECIPES["orca"].configuration("solana", "nonvoting_transaction", POOLS, "")
    bench = Bench()
    kept, failures = bench.run(body["pipeline_config"]["transforms"][0]["script"], [json.dumps(record).encode()])
    bench.sandbox.close()
    assert not failures
    return [json.loads(value)["price_usd"] for value in kept if value]


def test_a_swap_in_either_direction() -> None:
    first, second = swap("pool", ("a", "b")), swap("pool", ("a", "b"))
    paid = (transfer(10**9, "own-a", "a"), transfer(150_000_000, "b", "own-b"))
    back = (transfer(300_000_000, "own-b", "b"), transfer(10**9, "a", "own-a"))
    assert prices(first, *paid, second, *back) == [150.0, 300.0]


def test_transfers_of_another_swap_are_not_matched_with_a_swap_with_fees() -> None:
    with_fee = (transfer_with_fee(10**9, "own-a", "a"), transfer(150_000_000, "b", "own-b"))
    other = (swap("other", ("c", "d")), transfer(5_000, "own-c", "c"), transfer(7_000, "d", "own-d"))
    assert prices(swap("pool", ("a", "b")), *with_fee, *other) == []
