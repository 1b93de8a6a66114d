"""Pools and tokens of price recipes."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from headwater.errors import SetupError
from headwater.model.listed_token import TokenListEntry
from headwater.model.transforms.v8 import MAX_SCRIPT_BYTES
from headwater.recipes import RECIPES
from headwater.recipes.known_addresses import FACTORIES, QUOTES, STABLECOINS
from headwater.recipes.pools import MAX_POOLS, Pool, pools_from_logs, read_pools, select_pools
from headwater.recipes.tokens import decode_tokens, encode_tokens, read_markets, read_token_list

FACTORY = "0xfa"
USDC, WETH, PEPE, DUST = "0xa0", "0xb0", "0xc0", "0xd0"
BAD_DECIMALS = b'{"tokens": [{"chainId": 1, "address": "0x", "symbol": "A", "decimals": 300}]}'
TOKENS = {USDC: TokenListEntry("USDC", 6), WETH: TokenListEntry("WETH", 18), PEPE: TokenListEntry("PEPE", 9)}


def table(*pools: tuple[str, str], quotes: Sequence[str] = ()) -> dict[str, list[Any]]:
    pool_list = [Pool(f"pool{number}", *pair) for number, pair in enumerate(pools)]
    selection = select_pools(pool_list, TOKENS, {USDC}, quotes)
    return {address: list(entry) for address, entry in selection.table.items()}


class TestReading:
    @pytest.mark.parametrize(
        "text",
        [
            'address,token0,token1,fee\n"0xAA",0xB0,0xA0,500\n',
            '[{"pool": "0xAA", "token0": "0xB0", "token1": "0xA0"}]',
            '{"pair": "0xAA", "token0": "0xB0", "token1": "0xA0"}\n\n',
            '{"whirlpool": "0xAA", "token_mint_a": "0xB0", "token_mint_b": "0xA0"}\n',
        ],
    )
    def test_every_form(self, text: str) -> None:
        assert read_pools(text) == [Pool("0xaa", WETH, USDC)]

    def test_solana_keeps_its_case(self) -> None:
        assert read_pools("address,token0,token1\nPoOl,SoL,UsDc\n") == [Pool("PoOl", "SoL", "UsDc")]

    @pytest.mark.parametrize("text", ["address,token0\n0xaa,0xb0\n", '[{"address": 5}]', "[1]", "{", '{"token0": "x"}'])
    def test_invalid_pool_files(self, text: str) -> None:
        with pytest.raises(SetupError, match="pool"):
            read_pools(text)

    def test_learning(self) -> None:
        pad = "0x" + "0" * 62
        v2 = ["0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9", pad + "B0", pad + "a0"]
        v3 = ["0x783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118", pad + "b0", pad + "a0", pad + "01"]
        data = "0x" + "1".rjust(64, "0") + "2".rjust(64, "0")
        logs: list[dict[str, Any]] = [
            {"address": FACTORY, "topics": v2, "data": data},
            {"address": FACTORY.upper().replace("X", "x"), "topics": v3, "data": data},
            {"address": FACTORY, "topics": [], "data": "0x"},
            {"address": FACTORY, "topics": v2, "data": data, "removed": True},
            {"address": "0xbad", "topics": v2, "data": data},
        ]
        topics = {f"topic{i}": topic for i, topic in enumerate(v2)} | {"topic3": None}
        logs.append({"address": FACTORY, "data": data} | topics)
        token0, token1 = "0x" + "b0".rjust(40, "0"), "0x" + "a0".rjust(40, "0")
        announced = pools_from_logs((json.dumps(log).encode() for log in logs), {FACTORY})
        assert [pool.address[-1] for pool in announced.pools] == ["1", "2", "1"]
        assert {(pool.first, pool.second) for pool in announced.pools} == {(token0, token1)}
        assert announced.untrusted == {"0xbad": 1}

    @pytest.mark.parametrize("line", [b"{", b"[]", b'{"address": "0xfa", "topics": ["TOPIC"]}'])
    def test_invalid_logs(self, line: bytes) -> None:
        topic = b"0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9"
        with pytest.raises(SetupError, match="Line 1"):
            pools_from_logs([line.replace(b"TOPIC", topic)], {FACTORY})


class TestChoosing:
    def test_against_a_stablecoin(self) -> None:
        assert table((WETH, USDC), (USDC, WETH)) == {"pool0": [WETH, 18, 6, 1, None], "pool1": [WETH, 18, 6, 0, None]}

    def test_quoted_in_another_token(self) -> None:
        assert table((PEPE, WETH), (WETH, PEPE), (WETH, USDC), quotes=[WETH]) == {
            "pool2": [WETH, 18, 6, 1, None],
            "pool0": [PEPE, 9, 18, 1, WETH],
            "pool1": [PEPE, 9, 18, 0, WETH],
        }

    def test_the_first_of_two_quotes_is_the_quote(self) -> None:
        assert table((WETH, PEPE), quotes=[WETH, PEPE]) == {"pool0": [PEPE, 9, 18, 0, WETH]}
        assert table((WETH, PEPE), quotes=[PEPE, WETH]) == {"pool0": [WETH, 18, 9, 1, PEPE]}

    def test_a_token_with_a_stablecoin_pool_is_a_quote(self) -> None:
        assert table((WETH, USDC), (WETH, PEPE)) == {
            "pool0": [WETH, 18, 6, 1, None],
            "pool1": [PEPE, 9, 18, 0, WETH],
        }

    def test_a_token_with_a_stablecoin_pool_is_quoted_in_usual_quotes_alone(self) -> None:
        pools = ((PEPE, USDC), (WETH, USDC), (PEPE, WETH))
        assert table(*pools).keys() == {"pool0", "pool1"}
        assert table(*pools, quotes=[WETH])["pool2"] == [PEPE, 9, 18, 1, WETH]

    def test_skipped_pools_are_reported(self) -> None:
        pools = [Pool("a", DUST, USDC), Pool("b", PEPE, WETH), Pool("c", USDC, USDC)]
        choice = select_pools(pools, TOKENS, {USDC}, [])
        assert (choice.in_usd, choice.quoted, len(choice.table)) == (1, {}, 1)
        assert list(choice.left_out.values()) == [1, 1]
        assert select_pools(pools * 2, TOKENS, {USDC}, []) == choice

    def test_stablecoins_come_first_where_there_are_too_many(self) -> None:
        pools = [Pool(f"weth{n}", PEPE, WETH) for n in range(10)] + [
            Pool(f"usd{n}", WETH, USDC) for n in range(MAX_POOLS - 3)
        ]
        choice = select_pools(pools, TOKENS, {USDC}, [WETH])
        assert (choice.in_usd, choice.quoted, len(choice.table)) == (MAX_POOLS - 3, {WETH: 3}, MAX_POOLS)
        assert choice.left_out == {f"above the {MAX_POOLS} that a script may have": 7}


class TestTokens:
    def test_a_list(self) -> None:
        tokens = [
            {"chainId": 8453, "address": "0xAB", "symbol": "USDC", "decimals": 6},
            {"chainId": 8453, "address": "0XCD", "symbol": "DAI", "decimals": 18},
            {"chainId": 101, "address": "SoL", "symbol": "SOL", "decimals": 9},
            {"chainId": 424242, "address": "0x1", "symbol": "NO", "decimals": 1},
        ]
        known = read_token_list(json.dumps({"tokens": tokens}).encode())
        assert known == {
            "base": {"0xab": TokenListEntry("USDC", 6), "0xcd": TokenListEntry("DAI", 18)},
            "solana": {"SoL": TokenListEntry("SOL", 9)},
        }
        assert decode_tokens(encode_tokens(known)) == known

    @pytest.mark.parametrize("text", [b"{", b"[]", b'{"tokens": [1]}', b'{"tokens": [{"chainId": 1}]}', BAD_DECIMALS])
    def test_a_file_without_a_list(self, text: bytes) -> None:
        with pytest.raises(SetupError, match="Token List"):
            read_token_list(text)

    def test_markets(self) -> None:
        meta = {"universe": [{"name": "BTC", "szDecimals": 5}]}
        assert read_markets(json.dumps(meta).encode()) == {"BTC": 5}
        assert read_markets(json.dumps([meta, []]).encode()) == {"BTC": 5}
        with pytest.raises(SetupError, match="meta"):
            read_markets(b"[]")


class TestKnownAddresses:
    @pytest.mark.parametrize("recipe", FACTORIES)
    def test_every_chain_of_a_recipe_has_factories(self, recipe: str) -> None:
        assert FACTORIES[recipe].keys() == set(RECIPES[recipe].chains)

    def test_every_chain_with_pools_has_stablecoins(self) -> None:
        assert STABLECOINS.keys() == {chain for name in ("uniswap-v3", "orca") for chain in RECIPES[name].chains}

    def test_hexadecimal_addresses_are_in_lower_case(self) -> None:
        tables = [
            *STABLECOINS.values(),
            *QUOTES.values(),
            *(some for chains in FACTORIES.values() for some in chains.values()),
        ]
        found = [address for table in tables for address in table if address.startswith("0x")]
        assert len(found) > 15
        assert all(len(address) == 42 and address == address.lower() for address in found)


def test_the_largest_table_fits_into_a_script() -> None:
    address = "A" * 44
    pools = {f"{number:044d}": [address, 18, 18, 1, address] for number in range(MAX_POOLS)}
    body = RECIPES["orca"].configuration("solana", "nonvoting_transaction", pools, "")
    [script] = body["pipeline_config"]["transforms"]
    assert len(script["script"].encode()) < MAX_SCRIPT_BYTES
