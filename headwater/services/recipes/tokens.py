"""Tokens and their decimals, from Token Lists (tokenlists.org) and from Hyperliquid's list of markets."""

from typing import Annotated, Any

import msgspec

from headwater.errors import SetupError
from headwater.services.recipes.pools import ListedToken

CHAINS = {1: "ethereum", 10: "optimism", 101: "solana", 137: "polygon", 8453: "base"}
"""Chain names by the lists' chainId; tokens of other chains are left out."""
Tokens = dict[str, dict[str, ListedToken]]
"""By chain and address, which is in lower case where it is hexadecimal."""


class _Entry(msgspec.Struct):
    chainId: int  # noqa: N815 - the list's own spelling
    address: str
    symbol: str
    decimals: Annotated[int, msgspec.Meta(ge=0, le=255)]


class _List(msgspec.Struct):
    tokens: list[_Entry]


def read_list(text: bytes) -> Tokens:
    """The tokens of one list. Raises SetupError."""
    try:
        listed = msgspec.json.decode(text, type=_List).tokens
    except msgspec.DecodeError as error:
        raise SetupError(f"This is no Token List: {error}.") from error
    tokens: Tokens = {}
    for token in listed:
        if chain := CHAINS.get(token.chainId):
            address = token.address.lower() if token.address.startswith("0x") else token.address
            tokens.setdefault(chain, {})[address] = ListedToken(token.symbol, token.decimals)
    return tokens


def read_markets(text: bytes) -> dict[str, int]:
    """Decimals of each coin of Hyperliquid, from an answer of its `meta` or `metaAndAssetCtxs`. Raises SetupError."""
    try:
        answer: Any = msgspec.json.decode(text)
        meta = answer[0] if isinstance(answer, list) else answer
        return {market["name"]: market["szDecimals"] for market in meta["universe"]}
    except (msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise SetupError(f"This is no answer of Hyperliquid's `meta`: {error!r}.") from error


def encode(tokens: Tokens) -> bytes:
    """Tokens as they are kept in the data directory."""
    return msgspec.json.encode(tokens)


def decode(text: bytes) -> Tokens:
    """What `encode` made. Raises SetupError."""
    try:
        return msgspec.json.decode(text, type=Tokens)
    except msgspec.DecodeError as error:
        raise SetupError(f"The imported tokens can't be read: {error}. Import the lists again.") from error
