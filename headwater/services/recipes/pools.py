"""Pools that prices are taken from: read from a file, or learned from the logs of the contracts that made them."""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headwater.errors import SetupError

MAX_POOLS = 5_000

_PAIR_CREATED = "0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9"
_POOL_CREATED = "0x783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118"
_POOL_WORD = {_PAIR_CREATED: 0, _POOL_CREATED: 1}
"""Which word of the data is the pool, by topic0: of Uniswap v2's and v3's factories."""
_MEMBERS = {
    "address": ("address", "pool", "pair", "whirlpool"),
    "first": ("token0", "token_a", "token_mint_a"),
    "second": ("token1", "token_b", "token_mint_b"),
}


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool and its two tokens, by their addresses as on chain, in the pool's own order."""

    address: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class LearnedPools:
    """Pools that allowed factories created, and how many others each other contract announced."""

    pools: Sequence[Pool]
    refused: Counter[str]


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token of a token list."""

    symbol: str
    decimals: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The table that a script is given, how many pools are in it by kind, and how many are left out, by reason."""

    table: dict[str, list[Any]]
    exact: int
    approximate: int
    left_out: dict[str, int]


def read(text: str) -> list[Pool]:
    """A JSON array, JSON lines, or CSV with a header. Raises SetupError."""
    try:
        return [_pool(record) for record in _records(text)]
    except (msgspec.DecodeError, csv.Error, TypeError) as error:
        raise SetupError(f"The pool file is no JSON and no CSV: {error}.") from error


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
        raise SetupError(f"A pool of the file is no object: {record}.")
    found = {}
    for member, names in _MEMBERS.items():
        value = next((record[name] for name in names if record.get(name)), None)
        if not isinstance(value, str):
            raise SetupError(f"A pool of the file has no {names[0]}: {dict(record)}.")
        found[member] = as_on_chain(value)
    return Pool(**found)


def as_on_chain(address: str) -> str:
    """An address as records have it: hexadecimal ones in lower case, others as they are."""
    return address.lower() if address[:2] in ("0x", "0X") else address


def learn(lines: Iterable[bytes], factories: Collection[str]) -> LearnedPools:
    """The pools that `log` records of these factories name: PairCreated of Uniswap v2, PoolCreated of v3 and of forks.

    Raises SetupError for a line that is no log record.
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
            raise SetupError(f"Line {number} is no log record: {error!r}.") from error
    return LearnedPools(pools, refused)


def _created(topics: Sequence[str], data: str) -> Pool:
    at = 2 + 64 * _POOL_WORD[topics[0]]
    addresses = (data[at : at + 64], topics[1], topics[2])
    return Pool(*(f"0x{word[-40:].lower()}" for word in addresses))


def choose(
    pools: Iterable[Pool], tokens: Mapping[str, ListedToken], stable: Collection[str], usd: Mapping[str, float]
) -> Choice:
    """The pools of which a script can tell a price in USD; those with a stablecoin first.

    tokens: by address. stable: the stablecoins among them. usd: what other tokens are worth, about.
    """
    exact: dict[str, list[Any]] = {}
    approximate: dict[str, list[Any]] = {}
    left_out: dict[str, int] = {}
    for pool in pools:
        first, second = tokens.get(pool.first), tokens.get(pool.second)
        if first is None or second is None:
            _count(left_out, "with a token that is in no token list")
        elif pool.second in stable:
            exact[pool.address] = [pool.first, first.decimals, second.decimals, 1, 1.0]
        elif pool.first in stable:
            exact[pool.address] = [pool.second, second.decimals, first.decimals, 0, 1.0]
        elif pool.second in usd:
            approximate[pool.address] = [pool.first, first.decimals, second.decimals, 1, usd[pool.second]]
        elif pool.first in usd:
            approximate[pool.address] = [pool.second, second.decimals, first.decimals, 0, usd[pool.first]]
        else:
            _count(left_out, "without a side whose price in USD is known")
    priced = {entry[0] for entry in exact.values()}
    for address, entry in [*approximate.items()]:
        if entry[0] in priced:  # an approximation beside exact prices would only blur them
            del approximate[address]
            _count(left_out, "against another token, of a token that has a pool against a stablecoin")
    table = dict([*exact.items(), *approximate.items()][:MAX_POOLS])
    if over := len(exact) + len(approximate) - len(table):
        left_out[f"above the {MAX_POOLS} that a script may have"] = over
    return Choice(table, len(table.keys() & exact.keys()), len(table.keys() - exact.keys()), left_out)


def _count(counts: dict[str, int], reason: str) -> None:
    counts[reason] = counts.get(reason, 0) + 1
