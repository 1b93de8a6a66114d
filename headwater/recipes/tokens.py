"""Reads tokens and their decimals.

Tokens are in Token Lists (tokenlists.org), and in Hyperliquid's markets.
"""

from typing import Annotated, Any

import msgspec

from headwater.errors import SetupError
from headwater.model.listed_token import TokenListEntry
from headwater.model.stream import CATALOG
from headwater.recipes.addresses import as_in_records

CHAINS = {1: "ethereum", 10: "optimism", 101: "solana"} | {
    chain.chain_id: chain.name for chain in CATALOG if chain.chain_id is not None
}
"""The name of each chain, by its `chainId` in Token Lists. Tokens of other chains are ignored."""
Tokens = dict[str, dict[str, TokenListEntry]]
"""Tokens by chain and address, which is in the form of `as_in_records`."""


class _Entry(msgspec.Struct):
    chainId: int  # noqa: N815  # the name in Token Lists
    address: str
    symbol: str
    decimals: Annotated[int, msgspec.Meta(ge=0, le=255)]


class _List(msgspec.Struct):
    tokens: list[_Entry]


def read_token_list(text: bytes) -> Tokens:
    """Read the tokens of one Token List. Raises SetupError."""
    try:
        listed = msgspec.json.decode(text, type=_List).tokens
    except msgspec.DecodeError as error:
        raise SetupError(f"This is not a Token List: {error}.") from error
    tokens: Tokens = {}
    for token in listed:
        if chain := CHAINS.get(token.chainId):
            tokens.setdefault(chain, {})[as_in_records(token.address)] = TokenListEntry(token.symbol, token.decimals)
    return tokens


def read_markets(text: bytes) -> dict[str, int]:
    """Read the decimals of coins from Hyperliquid's `meta` or `metaAndAssetCtxs`.

    Raises SetupError.
    """
    try:
        response: Any = msgspec.json.decode(text)
        meta = response[0] if isinstance(response, list) else response
        return {market["name"]: market["szDecimals"] for market in meta["universe"]}
    except (msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise SetupError(f"This is not a response of Hyperliquid's `meta`: {error!r}.") from error


def encode_tokens(tokens: Tokens) -> bytes:
    """Encode tokens for a file of the data directory."""
    return msgspec.json.encode(tokens)


def decode_tokens(text: bytes) -> Tokens:
    """Decode tokens that `encode_tokens` has encoded. Raises SetupError."""
    try:
        return msgspec.json.decode(text, type=Tokens)
    except msgspec.DecodeError as error:
        raise SetupError(f"The imported tokens can't be read: {error}. Import the lists again.") from error
