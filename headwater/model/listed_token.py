"""A token of a token list."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenListEntry:
    """The symbol of a token, and the number of its decimals."""

    symbol: str
    decimals: int
