"""Generates a deterministic stream of ERC-20 transfers for the demo.

As on a chain, a few tokens and wallets have most of the transfers. Amounts are uint256, many of them beyond 2^53.
Addresses and hashes are lower-case hex.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

_Item = TypeVar("_Item")

TRANSFERS_PER_BLOCK = 150
BLOCK_TIME_S = 2
SKEW = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A token contract."""

    address: str
    symbol: str
    decimals: int


@dataclass(slots=True)
class TransferGenerator:
    """Generates transfers from a seed. The same seed gives the same transfers.

    Attributes:
        seed: The seed.
        tokens: The number of tokens.
        wallets: The number of wallets.
        start: The time of the first block.
        first_block: The number of the first block.
    """

    seed: int = 1
    tokens: int = 500
    wallets: int = 200_000
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    first_block: int = 21_000_000
    _random: random.Random = field(init=False)
    _tokens: list[Token] = field(init=False)
    _wallets: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311  # test data, not a secret
        self._tokens = [
            Token(self._hex(20), f"tk{i}", self._random.choice([18, 18, 18, 8, 6])) for i in range(self.tokens)
        ]
        self._wallets = [self._hex(20) for _ in range(self.wallets)]

    def _hex(self, size: int) -> str:
        return f"0x{self._random.getrandbits(size * 8):0{size * 2}x}"

    def _skewed(self, items: list[_Item]) -> _Item:
        return items[int(self._random.random() ** SKEW * len(items))]

    def token(self, rank: int) -> Token:
        """Return the token of this rank; 0 has the most transfers."""
        return self._tokens[rank]

    def wallet(self, rank: int) -> str:
        """Return the wallet of this rank; 0 has the most transfers."""
        return self._wallets[rank]

    def records(self) -> Iterator[dict[str, object]]:
        """Yield transfers without end, in the order of (block_number, log_index)."""
        number = 0
        while True:
            yield self._record(number)
            number += 1

    def lines(self) -> Iterator[bytes]:
        """Yield the records as JSON."""
        return (json.dumps(record, separators=(",", ":")).encode() for record in self.records())

    def _record(self, number: int) -> dict[str, object]:
        block, log_index = divmod(number, TRANSFERS_PER_BLOCK)
        token = self._skewed(self._tokens)
        amount = self._random.getrandbits(self._random.choice([40, 60, 70, 80, 100, 256]))
        transaction = self._hex(32)
        when = self.start + timedelta(seconds=block * BLOCK_TIME_S)
        return {
            "token_address": token.address,
            "token_symbol": token.symbol,
            "token_decimals": token.decimals,
            "from_address": self._skewed(self._wallets),
            "to_address": self._skewed(self._wallets),
            "raw_amount": amount,
            "raw_amount_str": str(amount),
            "transaction_hash": transaction,
            "transaction_index": log_index // 3,
            "log_index": log_index,
            "block_number": self.first_block + block,
            "block_timestamp": when.strftime("%Y-%m-%dT%H:%M:%S"),
            "block_hash": f"0x{self.first_block + block:064x}",
            "unique_id": f"erc20-{transaction}-{log_index}",
        }
