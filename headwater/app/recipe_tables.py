"""Builds the table of pools or coins that is inserted into the script of a price recipe."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from headwater.app.api_client import ApiClient
from headwater.app.token_lists import read_file, read_tokens
from headwater.errors import SetupError
from headwater.model.listed_token import ListedToken
from headwater.recipes import pools as pool_files
from headwater.recipes.known_addresses import FACTORIES, QUOTES, STABLECOINS
from headwater.recipes.pools import Pool
from headwater.recipes.tokens import read_markets
from headwater.record_files.record_file import read_lines
from headwater.settings import Settings

SHOWN_FACTORIES = 5
_CONTRACT = re.compile("0[xX][0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class TableSources:
    """The files and addresses that the user gives for a recipe.

    Attributes:
        pools: A file of pools.
        learn: Files of `log` records. Their events PairCreated and PoolCreated announce pools.
        markets: A file with the response of Hyperliquid's `meta`.
        factories: Addresses of factories that are allowed in addition to the known ones.
        stablecoins: Addresses of tokens that count as one USD, in addition to the known ones.
        quotes: Addresses of tokens that pools may be quoted in, in addition to the known ones.
    """

    pools: Path | None = None
    _: KW_ONLY
    learn: Sequence[Path] = ()
    markets: Path | None = None
    factories: Sequence[str] = ()
    stablecoins: Sequence[str] = ()
    quotes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RecipeTable:
    """The table of a recipe's script.

    Attributes:
        table: The pools or coins.
        note: What is in the table, for the description of the configuration.
        dollars: The symbols, by address, of the tokens that count as one US dollar.
    """

    table: Mapping[str, Any]
    note: str
    dollars: Mapping[str, str]


def table_of(settings: Settings, api: ApiClient, recipe: str, chain: str, sources: TableSources) -> RecipeTable:
    """Build the table of a recipe on a chain. Raises SetupError."""
    if chain == "hyperliquid":
        return _coins(sources)
    if sources.markets:
        raise SetupError("--markets is only for hyperliquid: name files with pools by --pools or --learn.")
    pools, refused = _pools(recipe, chain, sources)
    if not pools:
        raise SetupError(f"There are no pools: name files with pools by --pools or --learn.{_refused(refused)}")
    tokens = read_tokens(settings).get(chain, {})
    if not tokens:
        raise SetupError(f"No tokens of {chain} are known: import a Token List with `headwater tokens import` first.")
    stable = {*STABLECOINS.get(chain, {}), *_listed(chain, sources.stablecoins, tokens)}
    quotes = [*QUOTES.get(chain, {}), *_listed(chain, sources.quotes, tokens)]
    choice = pool_files.select_pools(pools, tokens, stable, quotes)
    if not choice.table:
        raise SetupError(f"None of the pools yields a price: {_words(choice.left_out)}.")
    note = _note(choice, tokens, api.priced(chain, choice.quoted)) + _refused(refused)
    return RecipeTable(choice.table, note, _dollars(pools, tokens, stable))


def _coins(sources: TableSources) -> RecipeTable:
    if sources.pools or sources.learn:
        raise SetupError("The recipe hyperliquid takes no pools: use --markets instead of --pools and --learn.")
    if sources.markets is None:
        raise SetupError("Name a file with the response of Hyperliquid's `meta` by --markets: it has the decimals.")
    coins = read_markets(read_file(sources.markets))
    return RecipeTable(coins, f"Trades of {len(coins)} coins.", {})


def _pools(recipe: str, chain: str, sources: TableSources) -> tuple[list[Pool], Counter[str]]:
    """Return the pools in the files, and the number of refused pools by contract.

    A contract that is not allowed may announce pools; they are refused.
    """
    found = pool_files.read(_text(sources.pools)) if sources.pools else []
    if sources.learn and recipe not in FACTORIES:
        raise SetupError(f"{recipe} has no pool factories whose logs --learn could read: name pools by --pools.")
    factories = {*FACTORIES.get(recipe, {}).get(chain, {}), *map(_contract, sources.factories)}
    refused = Counter[str]()
    for file in sources.learn:
        learned = pool_files.learn(read_lines(file), factories)
        found += learned.pools
        refused += learned.refused
    return found, refused


def _contract(address: str) -> str:
    if not _CONTRACT.fullmatch(address):
        raise SetupError(f"{address} is not an address of a factory: it must be 0x and 40 hexadecimal digits.")
    return address.lower()


def _listed(chain: str, addresses: Sequence[str], tokens: Mapping[str, ListedToken]) -> list[str]:
    """Return the addresses in their on-chain form.

    Raises SetupError for one that is in no imported Token List.
    """
    found = [pool_files.as_on_chain(address) for address in addresses]
    if missing := [address for address in found if address not in tokens]:
        raise SetupError(
            f"{missing[0]} is in no imported Token List of {chain}: name the token by its address, "
            "and import a list that has it."
        )
    return found


def _dollars(pools: Sequence[Pool], tokens: Mapping[str, ListedToken], stable: set[str]) -> dict[str, str]:
    used = {address for pool in pools for address in (pool.first, pool.second)} & stable & tokens.keys()
    return {address: tokens[address].symbol for address in sorted(used)}


def _text(file: Path) -> str:
    try:
        return read_file(file).decode()
    except UnicodeDecodeError as error:
        raise SetupError(f"{file} is not UTF-8: {error}.") from error


def _note(choice: pool_files.PoolSelection, tokens: Mapping[str, ListedToken], priced: Collection[str]) -> str:
    parts = [f"{choice.in_usd} pools against a stablecoin, which counts as 1 USD."]
    fed = {entry[0] for entry in choice.table.values() if entry[-1] is None}
    for quote, count in choice.quoted.most_common():
        unpriced = (
            "" if quote in fed or quote in priced else f", which has no price yet: feed {tokens[quote].symbol} too"
        )
        parts.append(f"{count} pools quoted in {tokens[quote].symbol} ({quote}){unpriced}.")
    if choice.left_out:
        parts.append(f"Left out: {_words(choice.left_out)}.")
    return " ".join(parts)


def _words(left_out: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in left_out.items())


def _refused(refused: Counter[str]) -> str:
    if not refused:
        return ""
    shown = ", ".join(f"{factory} ({count})" for factory, count in refused.most_common(SHOWN_FACTORIES))
    return (
        f" {refused.total()} pools of {len(refused)} contracts that are not known factories are left out: {shown}. "
        "If you trust one of them, name it by --factory."
    )
