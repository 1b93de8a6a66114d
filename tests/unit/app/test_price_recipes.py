"""`headwater prices enable` with invalid options."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.app.api_client import KEY_VARIABLE, ApiClient
from headwater.app.recipe_tables import RecipeTable, TableSources, table_of
from headwater.app.token_lists import add_tokens
from headwater.cli.application import app
from headwater.errors import SetupError
from headwater.settings import Settings

KEY = "hw_live_abc"
USDC, WETH = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", "0x4200000000000000000000000000000000000006"
SOL, SOL_USDC = "So11111111111111111111111111111111111111112", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
UNISWAP, STRANGER = "0x8909dc15e40173ff4699343b6eb8132c65e18ec6", f"0x{0xBAD:040x}"
EVM = ("uniswap-v3", "--chain", "base")


def refused(folder: Path, *command: str, key: str = KEY) -> str:
    arguments = ["prices", "enable", *command, "--data-dir", str(folder)]
    done = CliRunner().invoke(app, arguments, env={KEY_VARIABLE: key})
    assert done.exit_code == 2, done.exception
    return done.stderr


class UnpricedApi(ApiClient):
    """A fake API without prices."""

    def __init__(self) -> None:
        """Connect to nothing."""

    def priced_addresses(self, chain: str, addresses: Iterable[str]) -> set[str]:
        return set()


def read_table(folder: Path, recipe: str, chain: str, sources: TableSources) -> RecipeTable:
    return table_of(Settings(data_dir=folder), UnpricedApi(), recipe, chain, sources)


def import_tokens(folder: Path, chain_id: int, *tokens: tuple[str, str, int], start: bytes = b"") -> None:
    listed = [{"chainId": chain_id, "address": a, "symbol": s, "decimals": d} for a, s, d in tokens]
    file = folder / "list.json"
    file.write_bytes(start + json.dumps({"tokens": listed}).encode())
    add_tokens(Settings(data_dir=folder), [file])


def pool_file(folder: Path, *pools: tuple[str, str, str], start: bytes = b"") -> Path:
    rows = "".join(",".join(pool) + "\n" for pool in pools)
    (folder / "pools.csv").write_bytes(start + f"address,token0,token1\n{rows}".encode())
    return folder / "pools.csv"


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    import_tokens(tmp_path, 8453, (USDC, "USDC", 6), (WETH, "WETH", 18), start=BOM_UTF8)
    pools = pool_file(tmp_path, ("0xaa", WETH, USDC), start=BOM_UTF8)
    assert [*read_table(tmp_path, "uniswap-v3", "base", TableSources(pools)).table] == ["0xaa"]
    logs = tmp_path / "logs.jsonl"
    logs.write_bytes(BOM_UTF8 + json.dumps(pair_created(UNISWAP)).encode())
    assert len(read_table(tmp_path, "uniswap-v2", "base", TableSources(logs=[logs])).table) == 1
    markets = tmp_path / "meta.json"
    markets.write_bytes(BOM_UTF8 + b'{"universe": [{"name": "BTC", "szDecimals": 5}]}')
    assert read_table(tmp_path, "hyperliquid", "hyperliquid", TableSources(markets=markets)).table == {"BTC": 5}


def pair_created(factory: str) -> dict[str, Any]:
    topic = "0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9"
    tokens = [f"0x{int(token, 16):064x}" for token in (WETH, USDC)]
    return {"address": factory, "topics": [topic, *tokens], "data": f"0x{int(factory, 16):064x}{1:064x}"}


def test_pools_are_learned_only_from_known_factories(tmp_path: Path) -> None:
    import_tokens(tmp_path, 8453, (USDC, "USDC", 6), (WETH, "WETH", 18))
    logs = tmp_path / "logs.jsonl"
    logs.write_text("\n".join(json.dumps(pair_created(factory)) for factory in (UNISWAP, STRANGER, STRANGER)))
    found = read_table(tmp_path, "uniswap-v2", "base", TableSources(logs=[logs]))
    assert [*found.table] == [UNISWAP]
    assert f"2 pools of 1 contracts that are not known factories are left out: {STRANGER} (2)." in found.note
    trusting = read_table(tmp_path, "uniswap-v2", "base", TableSources(logs=[logs], factories=[STRANGER.upper()]))
    assert [*trusting.table] == [UNISWAP, STRANGER]
    with pytest.raises(SetupError, match=f"There are no pools: .* 3 pools of .*{UNISWAP}"):
        read_table(tmp_path, "uniswap-v3", "base", TableSources(logs=[logs]))  # the factory belongs to another recipe
    with pytest.raises(SetupError, match="0x1 is not an address"):
        read_table(tmp_path, "uniswap-v2", "base", TableSources(logs=[logs], factories=["0x1"]))
    with pytest.raises(SetupError, match="orca has no pool factories"):
        read_table(tmp_path, "orca", "solana", TableSources(logs=[logs]))


def test_a_symbol_does_not_make_a_stablecoin(tmp_path: Path) -> None:
    dark = "8PZnzjEUJ1B1sMAU3xhzpfK8T4QzydDrnTZrWdzzcno"
    import_tokens(tmp_path, 101, (SOL, "SOL", 9), (SOL_USDC, "USDC", 6), (dark, "DAI", 0))
    pools = pool_file(tmp_path, ("real", SOL, SOL_USDC), ("fake", SOL, dark))
    found = read_table(tmp_path, "orca", "solana", TableSources(pools))
    assert found.table == {"real": (SOL, 9, 6, 1, None), "fake": (dark, 0, 9, 0, SOL)}
    assert found.usd_tokens == {SOL_USDC: "USDC"}
    named = read_table(tmp_path, "orca", "solana", TableSources(pools, stablecoins=[dark]))
    assert named.table["fake"] == (SOL, 9, 0, 1, None)
    assert named.usd_tokens.keys() == {SOL_USDC, dark}


def test_pools_may_be_quoted_in_other_tokens(tmp_path: Path) -> None:
    other = f"0x{0xC0:040x}"
    import_tokens(tmp_path, 8453, (WETH, "WETH", 18), (STRANGER, "TOKEN", 9), (other, "OTHER", 6))
    pools = pool_file(tmp_path, ("0xaa", WETH, STRANGER), ("0xbb", STRANGER, other))
    found = read_table(tmp_path, "uniswap-v3", "base", TableSources(pools))
    assert found.table == {"0xaa": (STRANGER, 9, 18, 0, WETH)}
    assert f"1 pools quoted in WETH ({WETH}), which has no price yet: also enable a recipe" in found.note
    assert "with pools that trade WETH against a stablecoin." in found.note
    named = read_table(tmp_path, "uniswap-v3", "base", TableSources(pools, quotes=[other]))
    assert named.table["0xbb"] == (STRANGER, 9, 6, 1, other)


@pytest.mark.parametrize("sources", [TableSources(stablecoins=["USDC"]), TableSources(quotes=[SOL])])
def test_a_named_token_on_no_list_is_rejected(tmp_path: Path, sources: TableSources) -> None:
    import_tokens(tmp_path, 8453, (USDC, "USDC", 6), (WETH, "WETH", 18))
    pools = pool_file(tmp_path, ("0xaa", WETH, USDC))
    with pytest.raises(SetupError, match="is in no imported Token List of base"):
        read_table(tmp_path, "uniswap-v3", "base", replace(sources, pools=pools))


def test_an_invalid_address(tmp_path: Path) -> None:
    assert "http://[::1 is not a URL" in refused(tmp_path, *EVM, "--url", "http://[::1")


@pytest.mark.parametrize("key", ["hw_live_äbc", "hw_live\nabc"])
def test_an_invalid_key(tmp_path: Path, key: str) -> None:
    assert "The API key contains invalid characters" in refused(tmp_path, *EVM, key=key)


def test_an_invalid_stored_key(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_bytes(b"hw_live_\xff")
    assert "The API key contains invalid characters" in refused(tmp_path, *EVM, key="")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("hyperliquid", "--pools", "x.csv"), "The recipe hyperliquid takes no pools"),
        (("hyperliquid", "--learn", "x", "--markets", "x"), "The recipe hyperliquid takes no pools"),
        ((*EVM, "--markets", "x", "--pools", "x"), "--markets is only for hyperliquid"),
    ],
)
def test_options_of_other_recipes(tmp_path: Path, command: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(tmp_path, *command)
