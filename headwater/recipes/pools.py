"""Reads the pools of price recipes from a file, or learns them from factories' logs."""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headwater.errors import SetupError
from headwater.model.listed_token import ListedToken

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


@dataclass(frozen=True, slots=True)
class Pool:
    """The addresses of a pool and of its two tokens, as on chain and in the pool's own order."""

    address: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class LearnedPools:
    """Pools that allowed factories created.

    Attributes:
        refused: Number of pools that other contracts announced, by contract.
    """

    pools: Sequence[Pool]
    refused: Counter[str]


@dataclass(frozen=True, slots=True)
class PoolSelection:
    """The pools that a script reads, and the number of pools of each kind.

    Attributes:
        table: An entry by pool: the token, its decimals, the quote token's decimals, 1 when the token is the pool's
            first one else 0, and the quote token's address, or null where it counts as one USD.
        in_usd: Number of pools that are quoted in a stablecoin.
        quoted: Number of pools that are quoted in another token, by its address.
        left_out: Number of pools that are not in the table, by reason.
    """

    table: dict[str, list[Any]]
    in_usd: int
    quoted: Counter[str]
    left_out: Counter[str]


def read(text: str) -> list[Pool]:
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
    found = {}
    for member, names in _MEMBERS.items():
        value = next((record[name] for name in names if record.get(name)), None)
        if not isinstance(value, str):
            raise SetupError(f"A pool of the file has no {names[0]}: {dict(record)}.")
        found[member] = as_on_chain(value)
    return Pool(**found)


def as_on_chain(address: str) -> str:
    """Return an address as it is in records: hexadecimal ones in lower case, others unchanged."""
    return address.lower() if address[:2] in ("0x", "0X") else address


def learn(lines: Iterable[bytes], factories: Collection[str]) -> LearnedPools:
    """Return the pools in `log` records of these factories.

    The events are PairCreated of Uniswap v2 and PoolCreated of v3, also of their forks. Raises SetupError for a line
    that is not a log record.
    """
    pools, refused = list[Pool](), Counter[str]()
    for number, line in enumerate(lines, 1):
        try:
            log = msgspec.json.decode(line)
            topics = log.get("topics") or [log.get(f"topic{i}") for i in range(4)]
            if topics[0] not in _POOL_WORD or log.get("removed"):
                continue
            factory = log["address"].lower()
            if factory in factories:
                pools.append(_created(topics, log["data"]))
            else:
                refused[factory] += 1
        except (msgspec.DecodeError, AttributeError, KeyError, IndexError, TypeError) as error:
            raise SetupError(f"Line {number} is not a log record: {error!r}.") from error
    return LearnedPools(pools, refused)


def _created(topics: Sequence[str], data: str) -> Pool:
    at = 2 + 64 * _POOL_WORD[topics[0]]
    addresses = (data[at : at + 64], topics[1], topics[2])
    return Pool(*(f"0x{word[-40:].lower()}" for word in addresses))


def select_pools(
    pools: Iterable[Pool], tokens: Mapping[str, ListedToken], stable: Collection[str], quotes: Sequence[str]
) -> PoolSelection:
    """Select the pools that a script can compute prices from.

    Pools with a stablecoin come first. In other pools, one token must have a price in USD: a token in `quotes`, or a
    token with a stablecoin pool.

    tokens: The known tokens, by address.
    stable: The addresses of the stablecoins.
    quotes: The usual quote tokens. When both tokens of a pool are among them, the first one in `quotes` is the quote.
    """
    in_usd, others = dict[str, list[Any]](), list[Pool]()
    left_out = Counter[str]()
    for pool in dict.fromkeys(pools):
        if pool.first not in tokens or pool.second not in tokens:
            left_out["with a token that is in no token list"] += 1
        elif quote := next((side for side in (pool.second, pool.first) if side in stable), None):
            in_usd[pool.address] = _entry(pool, tokens, quote, None)
        else:
            others.append(pool)
    priced = dict.fromkeys(entry[0] for entry in in_usd.values())
    ranks = {quote: rank for rank, quote in enumerate(dict.fromkeys([*quotes, *priced]))}
    quoted = dict[str, list[Any]]()
    for pool in others:
        sides = [side for side in (pool.second, pool.first) if side in ranks]
        if not sides:
            left_out["without a side that is a stablecoin, a usual quote token or has a pool with a stablecoin"] += 1
            continue
        entry = _entry(pool, tokens, quote := min(sides, key=ranks.__getitem__), quote)
        # The prices of two rarely traded tokens against each other are too noisy.
        if entry[0] in priced and quote not in quotes:
            left_out["against an unusual quote token, of a token that has a pool with a stablecoin"] += 1
        else:
            quoted[pool.address] = entry
    table = dict([*in_usd.items(), *quoted.items()][:MAX_POOLS])
    if over := len(in_usd) + len(quoted) - len(table):
        left_out[f"above the {MAX_POOLS} that a script may have"] = over
    counts = Counter(entry[-1] for entry in table.values())
    return PoolSelection(table, counts.pop(None, 0), counts, left_out)


def _entry(pool: Pool, tokens: Mapping[str, ListedToken], side: str, quote: str | None) -> list[Any]:
    """Return the table entry of a pool.

    side: The token that the pool is quoted in.
    quote: The same token, or None when it is a stablecoin.
    """
    is_first = pool.second == side
    token = pool.first if is_first else pool.second
    return [token, tokens[token].decimals, tokens[side].decimals, int(is_first), quote]
