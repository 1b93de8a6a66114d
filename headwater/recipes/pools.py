"""Reads the pools of price recipes, and selects the pools that a script can use.

Pools are in a file, or in the logs of the factories that have created them.
"""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from headwater.errors import SetupError
from headwater.model.listed_token import TokenListEntry
from headwater.recipes.addresses import as_in_records

MAX_POOLS = 5_000

_PAIR_CREATED = "0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9"
_POOL_CREATED = "0x783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118"
_POOL_WORD = {_PAIR_CREATED: 0, _POOL_CREATED: 1}
"""Index of the data word that holds the pool's address, by topic0 of the factory events of Uniswap v2 and v3."""
_MEMBERS = {
    "address": ("address", "pool", "pair", "whirlpool"),
    "first": ("token0", "token_a", "token_mint_a"),
    "second": ("token1", "token_b", "token_mint_b"),
}
"""The names that each attribute of a Pool may have in a file."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The addresses of a pool and of its two tokens, as in records and in the pool's own order."""

    address: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class AnnouncedPools:
    """The pools that factories have announced by their events.

    Attributes:
        pools: The pools of allowed factories.
        untrusted: The number of pools that other contracts have announced, by the address of the contract.
    """

    pools: Sequence[Pool]
    untrusted: Counter[str]


class PoolEntry(NamedTuple):
    """The entry of a pool in the table of a script.

    Attributes:
        token: The address of the token whose price the script computes.
        is_first: 1 when the token is the pool's first token, else 0.
        quote: The address of the quote token; None when the quote token counts as one USD.
    """

    token: str
    decimals: int
    quote_decimals: int
    is_first: int
    quote: str | None


@dataclass(frozen=True, slots=True)
class PoolSelection:
    """The pools that a script reads, and the number of pools of each kind.

    Attributes:
        table: The entry of each pool, by the address of the pool.
        in_usd: The number of pools that are quoted in a stablecoin.
        quoted: The number of pools that are quoted in another token, by the address of this token.
        left_out: The number of pools that are not in the table, by reason.
    """

    table: dict[str, PoolEntry]
    in_usd: int
    quoted: Counter[str]
    left_out: Counter[str]


def read_pools(text: str) -> list[Pool]:
    """Read the pools in a JSON array, JSON lines, or CSV with a header. Raises SetupError."""
    try:
        return [_pool(record) for record in _records(text)]
    except (msgspec.DecodeError, csv.Error, TypeError) as error:
        raise SetupError(f"The pool file is neither JSON nor CSV: {error}.") from error


def _records(text: str) -> Iterator[Mapping[str, Any]]:
    start = text.lstrip()[:1]
    if start == "[":
        yield from msgspec.json.decode(text)
    elif start == "{":
        yield from (msgspec.json.decode(line) for line in text.splitlines() if line.strip())
    else:
        yield from csv.DictReader(io.StringIO(text))


def _pool(record: Mapping[str, Any]) -> Pool:
    if not isinstance(record, Mapping):
        raise SetupError(f"A pool of the file is not an object: {record}.")
    addresses = {}
    for attribute, names in _MEMBERS.items():
        value = next((record[name] for name in names if record.get(name)), None)
        if not isinstance(value, str):
            raise SetupError(f"A pool of the file has no {names[0]}: {dict(record)}.")
        addresses[attribute] = as_in_records(value)
    return Pool(**addresses)


def pools_from_logs(lines: Iterable[bytes], factories: Collection[str]) -> AnnouncedPools:
    """Return the pools that `log` records announce.

    The events are PairCreated of Uniswap v2 and PoolCreated of v3, also of their forks. Raises SetupError for a line
    that is not a log record.

    Args:
        factories: The addresses of the allowed factories.
    """
    pools, untrusted = list[Pool](), Counter[str]()
    for number, line in enumerate(lines, 1):
        try:
            log = msgspec.json.decode(line)
            topics = log.get("topics") or [log.get(f"topic{i}") for i in range(4)]
            if topics[0] not in _POOL_WORD or log.get("removed"):
                continue
            factory = log["address"].lower()
            if factory in factories:
                pools.append(_announced_pool(topics, log["data"]))
            else:
                untrusted[factory] += 1
        except (msgspec.DecodeError, AttributeError, KeyError, IndexError, TypeError) as error:
            raise SetupError(f"Line {number} is not a log record: {error!r}.") from error
    return AnnouncedPools(pools, untrusted)


def _announced_pool(topics: Sequence[str], data: str) -> Pool:
    start = 2 + 64 * _POOL_WORD[topics[0]]
    words = (data[start : start + 64], topics[1], topics[2])
    return Pool(*(f"0x{word[-40:].lower()}" for word in words))


def select_pools(
    pools: Iterable[Pool], tokens: Mapping[str, TokenListEntry], stablecoins: Collection[str], quotes: Sequence[str]
) -> PoolSelection:
    """Select the pools that a script can compute prices from.

    Pools with a stablecoin come first. In other pools, one token must have a price in USD: a token in `quotes`, or a
    token that has a pool with a stablecoin.

    Args:
        tokens: The known tokens, by address.
        stablecoins: The addresses of the stablecoins.
        quotes: The addresses of the usual quote tokens. When both tokens of a pool are in `quotes`, the first one in
            `quotes` is the quote token.
    """
    usd_entries, other_pools = dict[str, PoolEntry](), list[Pool]()
    left_out = Counter[str]()
    for pool in dict.fromkeys(pools):
        if pool.first not in tokens or pool.second not in tokens:
            left_out["with a token that is in no token list"] += 1
        elif stablecoin := next((token for token in (pool.second, pool.first) if token in stablecoins), None):
            usd_entries[pool.address] = _entry(pool, tokens, stablecoin, is_usd=True)
        else:
            other_pools.append(pool)
    priced = list(dict.fromkeys(entry.token for entry in usd_entries.values()))
    quoted_entries = _quoted_entries(other_pools, tokens, quotes, priced, left_out)
    table = dict([*usd_entries.items(), *quoted_entries.items()][:MAX_POOLS])
    if excess := len(usd_entries) + len(quoted_entries) - len(table):
        left_out[f"above the {MAX_POOLS} that a script may have"] = excess
    quoted = Counter(entry.quote for entry in table.values() if entry.quote is not None)
    return PoolSelection(table, len(table) - quoted.total(), quoted, left_out)


def _quoted_entries(
    pools: Iterable[Pool],
    tokens: Mapping[str, TokenListEntry],
    quotes: Sequence[str],
    priced: Sequence[str],
    left_out: Counter[str],
) -> dict[str, PoolEntry]:
    """Return the entries of pools without a stablecoin.

    The pools that get no entry are counted in `left_out`.

    Args:
        priced: The addresses of the tokens that have a pool with a stablecoin.
    """
    ranks = {quote: rank for rank, quote in enumerate(dict.fromkeys([*quotes, *priced]))}
    entries = dict[str, PoolEntry]()
    for pool in pools:
        candidates = [token for token in (pool.second, pool.first) if token in ranks]
        if not candidates:
            left_out["without a token whose price in USD is known"] += 1
            continue
        quote = min(candidates, key=ranks.__getitem__)
        entry = _entry(pool, tokens, quote, is_usd=False)
        # The token has a better price from its pool with a stablecoin. A pool with an unusual quote token adds noise.
        if entry.token in priced and quote not in quotes:
            left_out["quoted in an unusual token although their token has a pool with a stablecoin"] += 1
        else:
            entries[pool.address] = entry
    return entries


def _entry(pool: Pool, tokens: Mapping[str, TokenListEntry], quote: str, *, is_usd: bool) -> PoolEntry:
    """Return the table entry of a pool.

    Args:
        quote: The address of the quote token, which is one of the pool's tokens.
        is_usd: Whether the quote token counts as one USD.
    """
    is_first = pool.second == quote
    token = pool.first if is_first else pool.second
    return PoolEntry(
        token, tokens[token].decimals, tokens[quote].decimals, int(is_first), quote=None if is_usd else quote
    )
