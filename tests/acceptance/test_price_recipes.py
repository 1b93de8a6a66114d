"""The price recipes, on generated and recorded trades, give the correct prices.

The expected prices are computed independently.
"""

import csv
import gzip
import io
import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, reading
from tests.acceptance.recorded import read_logs
from tests.acceptance.recorded_prices import BLOCK, orca_swaps
from tests.support.waiting import until

FOLDER = Path(os.environ.get("HEADWATER_TEST_DATA") or "nowhere")
RECORDED = pytest.mark.skipif(not FOLDER.exists(), reason="HEADWATER_TEST_DATA names no folder")
STATS = "/api/v1/developer/prices/stats"

V3_SWAP = "0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67"
V2_SWAP = "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822"
V2_SYNC = "0x1c411e9a96e071241c2f21f7726b17ae89e3cab4c78be50e062b03a9fffbbad1"
PAIR_CREATED = "0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9"

USDC, WETH = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", "0x4200000000000000000000000000000000000006"
FACTORY = "0x8909dc15e40173ff4699343b6eb8132c65e18ec6"
TOKEN, TOKEN_POOL = f"0x{0xC0:040x}", f"0x{0xCC:040x}"
POOL = "0x88e6a0c2ddd26feeb64f039a2c41296fcb3f5640"
WHIRLPOOLS = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"
TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SOL, SOL_USDC = "So11111111111111111111111111111111111111112", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


@dataclass
class Case:
    """A recipe with its files, the records of its stream, and the expected price of each tick.

    Attributes:
        expected: By block number or slot and by index, the price and its relative tolerance.
    """

    recipe: str
    chain: str
    entity: str
    records: list[dict[str, Any]]
    expected: dict[Any, tuple[float, float]]
    tokens: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    key: Callable[[dict[str, Any]], Any] = lambda tick: (tick["block_number"], tick["log_index"])
    token: str = WETH


def word(number: int) -> str:
    return f"{number % (1 << 256):064x}"


def log(topics: list[str], data: list[int], place: int, address: str = POOL) -> dict[str, Any]:
    names = {f"topic{i}": topics[i] if i < len(topics) else None for i in range(4)}
    return {
        "address": address,
        "topics": topics,
        "data": "0x" + "".join(map(word, data)),
        "block_number": 100 + place // 3,
        "log_index": place % 3,
        "removed": False,
    } | names


def listed(chain_id: int, *tokens: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"chainId": chain_id, "address": a, "symbol": s, "decimals": d, "name": s} for a, s, d in tokens]


BASE_TOKENS = listed(8453, (USDC, "USDC", 6), (WETH, "WETH", 18))


def pool_file(*pools: tuple[str, str, str]) -> dict[str, str]:
    return {"--pools": "address,token0,token1\n" + "".join(",".join(pool) + "\n" for pool in pools)}


def v3_generated() -> Case:
    draw, records, expected = random.Random(1), [], {}
    for place in range(60):
        price = draw.uniform(1500, 2500)
        root = math.isqrt(int((1e12 / price) * 2**192))
        record = log([V3_SWAP, "0x1", "0x2"], [-(10**9), 10**18, root, 10**20, 200_000], place)
        records.append(record)
        expected[record["block_number"], record["log_index"]] = price, 1e-12
    records.append(log([V2_SYNC], [1, 1], 61))
    records.append(log([V3_SWAP], [1, 1, 1 << 96, 1, 1], 62, address=WETH))
    return Case("uniswap-v3", "base", "log", records, expected, BASE_TOKENS, pool_file((POOL, USDC, WETH)))


def v3_quoted() -> Case:
    """Return trades of a token that is traded only for WETH, and trades of WETH itself."""
    draw, records, expected, weth = random.Random(6), [], {}, 0.0
    for place in range(60):
        if place % 2 == 0:
            weth = draw.uniform(1500, 2500)
            root = math.isqrt(int((1e12 / weth) * 2**192))
            records.append(log([V3_SWAP], [-(10**9), 10**18, root, 10**20, 200_000], place))
            expected[100 + place // 3, place % 3] = weth, 1e-12
        else:
            price = draw.uniform(1e-6, 2e-6)
            root = math.isqrt(int(price * 2**192))
            records.append(log([V3_SWAP], [-(10**18), 10**12, root, 10**20, 1], place, address=TOKEN_POOL))
            expected[100 + place // 3, place % 3] = price, 1e-9
    pools = pool_file((POOL, USDC, WETH), (TOKEN_POOL, TOKEN, WETH))
    tokens = BASE_TOKENS + listed(8453, (TOKEN, "TOKEN", 18))
    return Case("uniswap-v3", "base", "log", records, expected, tokens, pools, token=TOKEN)


def v3_decoded() -> Case:
    case = v3_quoted()
    records = [
        {
            **record,
            "name": "Swap",
            "params": dict(
                zip(
                    ("amount0", "amount1", "sqrtPriceX96", "liquidity", "tick"),
                    (str(int(record["data"][2 + 64 * n : 66 + 64 * n], 16)) for n in range(5)),
                    strict=True,
                )
            ),
        }
        for record in case.records
    ]
    return Case("uniswap-v3", "base", "decoded_log", records, case.expected, case.tokens, case.files, token=TOKEN)


def v3_recorded() -> Case:
    """Return recorded swaps.

    The recorded tick is the logarithm of the price to base 1.0001, rounded down.
    """
    rows = csv.DictReader(
        io.StringIO(
            gzip.decompress((FOLDER / "prices/ethereum_univ3_usdc_weth_2024-01-05.tick.csv.gz").read_bytes()).decode()
        )
    )
    expected = {
        (int(row["block_number"]), int(float(row["pool_log_index"]))): (
            1e12 / 1.0001 ** (float(row["current_tick"]) + 0.5),
            0.5001e-4,
        )
        for row in rows
        if row["tx_type"] == "SWAP"
    }
    [file] = (FOLDER / "evm/ethereum").glob("demeter_*")
    return Case("uniswap-v3", "base", "log", read_logs(file), expected, BASE_TOKENS, pool_file((POOL, USDC, WETH)))


def v2_generated() -> Case:
    draw, records, expected = random.Random(2), [], {}
    for place in range(60):
        weth, usdc = draw.randint(10**15, 10**19), draw.randint(10**6, 10**10)
        amounts = [weth, 0, 0, usdc] if place % 2 else [0, usdc, weth, 0]
        record = log([V2_SWAP, "0x1", "0x2"], amounts, place)
        records.append(record)
        expected[record["block_number"], record["log_index"]] = (usdc / 1e6) / (weth / 1e18), 1e-12
    records.append(log([V2_SWAP], [5, 0, 0, 5], 70))  # the amounts are too small for a price
    created = log(
        [PAIR_CREATED, "0x" + word(int(WETH, 16)), "0x" + word(int(USDC, 16))], [int(POOL, 16), 1], 0, FACTORY
    )
    return Case("uniswap-v2", "base", "log", records, expected, BASE_TOKENS, {"--learn": json.dumps(created) + "\n"})


def v2_recorded() -> Case:
    """Return recorded swaps.

    Expected prices are from the reserves, and differ by the fee and the swap.
    """
    files = [*(FOLDER / "evm").glob("*/rotki_receipts.jsonl.gz"), *(FOLDER / "evm").glob("*/squid_*_receipts.json.gz")]
    logs = [one for file in files for one in read_logs(file)]
    by_place = {(one["block_number"], one["log_index"], one["address"]): one for one in logs}
    records, expected, pools = [], {}, set()
    for one in logs:
        sync = by_place.get((one["block_number"], one["log_index"] - 1, one["address"]))
        if one["topic0"] != V2_SWAP or not sync or sync["topic0"] != V2_SYNC:
            continue
        reserve0, reserve1 = (int(sync["data"][2 + 64 * n : 66 + 64 * n], 16) for n in range(2))
        paid = [int(one["data"][2 + 64 * n : 66 + 64 * n], 16) for n in range(4)]
        moved = max(abs(paid[0] - paid[2]) / reserve0, abs(paid[1] - paid[3]) / reserve1)
        if min(abs(paid[0] - paid[2]), abs(paid[1] - paid[3])) >= 1000:
            records.append(one)
            expected[one["block_number"], one["log_index"]] = reserve1 / reserve0 * 10**12, 0.012 + 2 * moved
            pools.add(one["address"])
    return Case(
        "uniswap-v2", "base", "log", records, expected, BASE_TOKENS, pool_file(*((p, WETH, USDC) for p in pools))
    )


def solana_tokens() -> list[dict[str, Any]]:
    return listed(101, (SOL, "SOL", 9), (SOL_USDC, "USDC", 6))


def transaction(swaps: Sequence[tuple[str, bool, int, int]], slot: int, index: int) -> dict[str, Any]:
    """Return a `nonvoting_transaction` record with swaps.

    A swap is (whirlpool, A to B?, amount in, amount out).
    """
    outer, inner = [], []
    for number, (pool, a_to_b, paid, bought) in enumerate(swaps):
        accounts = [TOKEN_PROGRAM, "owner", pool, "own-a", "vault-a", "own-b", "vault-b"]
        outer.append(
            {
                "instruction_index": number,
                "program_id": WHIRLPOOLS,
                "accounts": accounts,
                "data_hex": "f8c69e91e17587c8" + "00" * 34,
            }
        )
        into, out_of = ("vault-a", "vault-b") if a_to_b else ("vault-b", "vault-a")
        for amount, source, destination in ((paid, "own", into), (bought, out_of, "own")):
            data = "03" + amount.to_bytes(8, "little").hex()
            inner.append(
                {
                    "instruction_index": number,
                    "program_id": TOKEN_PROGRAM,
                    "accounts": [source, destination, "owner"],
                    "data_hex": data,
                }
            )
    return {
        "block_slot": slot,
        "txn_index": index,
        "success": True,
        "err": None,
        "instructions": outer,
        "inner_instructions": inner,
    }


def orca_generated() -> Case:
    draw, records, expected = random.Random(3), [], {}
    for number in range(40):
        a_to_b, sol, usdc = number % 2 == 0, draw.randint(10**8, 10**12), draw.randint(10**6, 10**10)
        paid, bought = (sol, usdc) if a_to_b else (usdc, sol)
        records.append(transaction([("pool", a_to_b, paid, bought)], 7000 + number, number))
        expected[7000 + number, number * 256] = (usdc / 1e6) / (sol / 1e9), 1e-12
    return Case(
        "orca",
        "solana",
        "nonvoting_transaction",
        [*records, records[0] | {"success": False, "block_slot": 1}],
        expected,
        solana_tokens(),
        pool_file(("pool", SOL, SOL_USDC)),
        token=SOL,
    )


def orca_recorded() -> Case:
    """Return every recorded swap in SOL/USDC pools.

    Prices come from the amounts, so they are equal.
    """
    pools = json.loads((FOLDER / "solana/orca_pools.json").read_text())
    chosen = {p["whirlpool"] for p in pools if (p["token_mint_a"], p["token_mint_b"]) == (SOL, SOL_USDC)}
    records, expected = [], {}
    for slot, _, index, swaps in orca_swaps(FOLDER):
        swaps_of_transaction: list[tuple[str, bool, int, int]] = []
        for swap in swaps:
            paid, bought = int(swap["transferAmount0"]), int(swap["transferAmount1"])
            number = 3 * len(swaps_of_transaction)  # each swap is followed by its two transfers
            swaps_of_transaction.append((swap["keyWhirlpool"], bool(swap["dataAToB"]), paid, bought))
            if swap["keyWhirlpool"] in chosen and min(paid, bought) >= 1000:
                sol, usdc = (paid, bought) if swap["dataAToB"] else (bought, paid)
                expected[slot, index * 256 + number] = (usdc / 1e6) / (sol / 1e9), 1e-12
        records.append(transaction(swaps_of_transaction, slot, index))
    return Case(
        "orca",
        "solana",
        "nonvoting_transaction",
        records,
        expected,
        solana_tokens(),
        pool_file(*((pool, SOL, SOL_USDC) for pool in chosen)),
        token=SOL,
    )


def hyperliquid(trades: Iterator[tuple[str, float, float, int]]) -> Case:
    records, expected = [], {}
    for coin, price, size, trade_id in trades:
        records.append({"coin": coin, "px": str(price), "sz": str(size), "tid": trade_id, "side": "B"})
        expected[trade_id] = price, 0.0
    markets = json.dumps([{"universe": [{"name": "BTC", "szDecimals": 5}, {"name": "ETH", "szDecimals": 4}]}, []])
    return Case(
        "hyperliquid",
        "hyperliquid",
        "trade",
        [*records, records[0] | {"coin": "NOCOIN"}],
        expected,
        files={"--markets": markets},
        key=lambda tick: tick["block_number"] * BLOCK + tick["log_index"],
        token="BTC",
    )


def hyperliquid_generated() -> Case:
    draw = random.Random(4)
    return hyperliquid(("BTC", draw.uniform(9e4, 1.1e5), 0.01, draw.getrandbits(50)) for _ in range(60))


def hyperliquid_recorded() -> Case:
    def trades() -> Iterator[tuple[str, float, float, int]]:
        for coin in ("ETH", "BTC"):
            with (FOLDER / f"hyperliquid/trades/ws_trades_{coin}_20250903.csv").open() as file:
                for row in csv.DictReader(file):
                    yield coin, float(row["price"]), float(row["size"]), int(row["trade_id"])

    return hyperliquid(trades())


def enable(installation: Installation, client: httpx2.Client, case: Case, folder: Path) -> dict[str, Any]:
    """Create the configuration of the recipe, without deploying it."""
    if case.tokens:
        (folder / "list.json").write_text(json.dumps({"name": "test", "tokens": case.tokens}))
        imported = installation.run("tokens", "import", str(folder / "list.json"))
        assert imported.returncode == 0, imported.stderr
    options = ["--chain", case.chain, "--entity", case.entity, "--no-deploy", "--url", installation.url]
    for option, text in case.files.items():
        (folder / option[2:]).write_text(text)
        options += [option, str(folder / option[2:])]
    result = installation.run("prices", "enable", case.recipe, *options)
    assert result.returncode == 0, result.stderr
    assert case.recipe == "hyperliquid" or "USDC (" in result.stdout, result.stdout
    flow: dict[str, Any] = client.get(f"/api/v1/flow/{result.stdout.split()[-1].rstrip('.')}").json()
    return flow


GENERATED = (v3_generated, v2_generated, orca_generated, hyperliquid_generated)
IN_PLACE_OF_RECORDS = [pytest.mark.slow] if FOLDER.exists() else []
CASES = [
    v3_decoded,
    pytest.param(v3_quoted, marks=pytest.mark.slow),
    *(pytest.param(case, marks=IN_PLACE_OF_RECORDS) for case in GENERATED),
    *(pytest.param(case, marks=RECORDED) for case in (v2_recorded, orca_recorded)),
    *(pytest.param(case, marks=[RECORDED, pytest.mark.slow]) for case in (v3_recorded, hyperliquid_recorded)),
]


@pytest.mark.parametrize("make", CASES)
def test_every_trade_becomes_its_price(
    installation: Installation, client: httpx2.Client, tmp_path: Path, make: Callable[[], Case]
) -> None:
    case = make()
    flow = enable(installation, client, case, tmp_path)
    path = f"/api/v1/flow/{flow['id']}"
    flow["pipeline_config"]["sinks"].append(
        {"type": "kafka", "name": "seen"}
    )  # the result is an ordinary configuration
    assert client.put(path, json=flow).status_code == 200
    sinks = client.post(f"{path}/deploy").json()["sinks"]
    now = time.time()
    times = {"block_timestamp": now, "time": int(now * 1000)}
    with reading(sinks[1]) as reader:
        installation.feed(case.chain, case.entity, [record | times for record in case.records])
        ticks = [read.json() for read in reader.read(len(case.expected))]
    assert len({case.key(tick) for tick in ticks}) == len(case.expected)
    for tick in ticks:
        price, off = case.expected[case.key(tick)]
        actual = tick["price_quote"] if "quote_address" in tick else tick["price_usd"]
        assert actual == pytest.approx(price, rel=max(off, 1e-15)), tick
        assert tick.get("quote_address") == WETH or tick["volume_usd"] > 0
    body = [{"token_address": case.token, "chain": case.chain}]
    until(lambda: client.post(STATS, json=body).json()["items"], what="the token's price")
    check_quoted(client, ticks, case)
    assert client.delete(path).status_code == 200


def check_quoted(client: httpx2.Client, ticks: Sequence[dict[str, Any]], case: Case) -> None:
    """Check a token that has only quoted prices.

    All ticks have the same time, so the last price of WETH applies.
    """
    quoted = [tick for tick in ticks if "quote_address" in tick]
    if not quoted:
        return
    place = case.key
    weth = max((tick for tick in ticks if "quote_address" not in tick), key=place)["price_usd"]
    prices = [tick["price_quote"] * weth for tick in quoted]
    wanted = max(quoted, key=place)["price_quote"] * weth, min(prices), max(prices)

    def figures() -> tuple[float, float, float]:
        [item] = client.post(STATS, json=[{"token_address": case.token, "chain": case.chain}]).json()["items"]
        return item["latest_price"], item["low_1h"], item["high_1h"]

    until(lambda: figures() == pytest.approx(wanted, rel=1e-12), what="prices with the quote's last one")


class TestEnabling:
    def test_enabling_again_updates_the_configuration(
        self, installation: Installation, client: httpx2.Client, tmp_path: Path
    ) -> None:
        case = v3_generated()
        first = enable(installation, client, case, tmp_path)
        case.files = pool_file((POOL, USDC, WETH), (WETH, USDC, WETH))
        second = enable(installation, client, case, tmp_path)
        assert (second["id"], second["revision"]) == (first["id"], first["revision"] + 1)
        assert second["description"].startswith("2 pools against a stablecoin")
        client.delete(f"/api/v1/flow/{first['id']}")

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            (["curve"], "no recipe curve"),
            (["uniswap-v3"], "--chain: polygon, base"),
            (["uniswap-v3", "--chain", "base"], "--pools"),
            (["uniswap-v3", "--chain", "base", "--entity", "trade"], "can't read trade"),
            (["hyperliquid"], "--markets"),
        ],
    )
    def test_the_error_names_the_missing_files(
        self, installation: Installation, arguments: list[str], word: str
    ) -> None:
        refused = installation.run("prices", "enable", *arguments, "--url", installation.url)
        assert refused.returncode == 2
        assert word in refused.stderr
