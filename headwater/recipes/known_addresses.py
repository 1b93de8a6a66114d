"""The contracts that price recipes trust, by chain: factories, stablecoins, quote tokens.

Anybody can deploy a contract that emits PairCreated, and a token with any symbol, so only addresses are trusted. The
addresses of factories are from the deployment pages of Uniswap, SushiSwap, QuickSwap, PancakeSwap and BaseSwap. The
addresses of tokens are from the pages of their issuers (Circle, Tether, Sky, Paxos), of the bridges and of the chains.
"""

from collections.abc import Mapping
from typing import Final

NamesByAddress = Mapping[str, str]
"""The names of contracts by address. Hexadecimal addresses are in lower case."""

FACTORIES: Final[Mapping[str, Mapping[str, NamesByAddress]]] = {
    "uniswap-v2": {
        "base": {
            "0x8909dc15e40173ff4699343b6eb8132c65e18ec6": "Uniswap v2",
            "0x71524b4f93c58fcbf659783284e38825f0622859": "SushiSwap v2",
            "0x02a84c1b3bbd7401a5f7fa98a384ebc70bb5749e": "PancakeSwap v2",
            "0xfda619b6d20975be80a10332cd39b9a4b0faa8bb": "BaseSwap",
        },
        "polygon": {
            "0x9e5a52f57b3038f1b8eee45f28b3c1967e22799c": "Uniswap v2",
            "0xc35dadb65012ec5796536bd9864ed8773abc74c4": "SushiSwap v2",
            "0x5757371414417b8c6caad45baef941abc7d3ab32": "QuickSwap v2",
        },
    },
    "uniswap-v3": {
        "base": {
            "0x33128a8fc17869897dce68ed026d694621f6fdfd": "Uniswap v3",
            "0xc35dadb65012ec5796536bd9864ed8773abc74c4": "SushiSwap v3",
        },
        "polygon": {
            "0x1f98431c8ad98523631ae4a59f267346ea31f984": "Uniswap v3",
            "0x917933899c6a5f8e37f31e19f92cdbff7e8ff0e2": "SushiSwap v3",
        },
    },
}
"""The factories whose PairCreated and PoolCreated events name pools of a recipe, by recipe and chain."""

STABLECOINS: Final[Mapping[str, NamesByAddress]] = {
    "base": {
        "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913": "USDC",
        "0xd9aaec86b65d86f6a7b5b1b0c42ffa531710b6ca": "USDbC",
        "0xfde4c96c8593536e31f229ea8f37b2ada2699bb2": "USDT",
        "0x50c5725949a6f0c72e6c4a641f24049a917db0cb": "DAI",
        "0x820c137fa70c8691f0e44dc420a5e53c168921dc": "USDS",
    },
    "polygon": {
        "0x3c499c542cef5e3811e1192ce70d8cc03d5c3359": "USDC",
        "0x2791bca1f2de4661ed88a30c99a7a9449aa84174": "USDC.e",
        "0xc2132d05d31c914a87c6611c10748aeb04b58e8f": "USDT",
        "0x8f3cf7ad23cd3cadbd9735aff958023239c6a063": "DAI",
    },
    "solana": {
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v": "USDC",
        "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB": "USDT",
        "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo": "PYUSD",
        "USDSwr9ApdHk5bvJKMjzff41FfuX8bSxdKcR81vTwcA": "USDS",
    },
}
"""Tokens that count as one US dollar each."""

QUOTES: Final[Mapping[str, NamesByAddress]] = {
    "base": {
        "0x4200000000000000000000000000000000000006": "WETH",
        "0xcbb7c0000ab88b473b1f5afd9ef808440eed33bf": "cbBTC",
    },
    "polygon": {
        "0x7ceb23fd6bc0add59e62ac25578270cff1b9f619": "WETH",
        "0x0d500b1d8e8ef31e21c99d1db9a6444d3adf1270": "WPOL",
        "0x1bfd67037b42cf73acf2047067bd4f2c47d9bfd6": "WBTC",
    },
    "solana": {
        "So11111111111111111111111111111111111111112": "SOL",
    },
}
"""The usual quote tokens of pools without a stablecoin. `select_pools` also finds others.

When both tokens of a pool are in this table, the one that comes first in this table is the quote token.
"""
