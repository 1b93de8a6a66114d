"""Builds the table of pools or coins that is inserted into the script of a price recipe."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from headwater.app.api_client import ApiClient
from headwater.app.token_lists import read_tokens
from headwater.errors import SetupError
from headwater.model.listed_token import TokenListEntry
from headwater.recipes.addresses import as_in_records
from headwater.recipes.known_addresses import FACTORIES, QUOTES, STABLECOINS
from headwater.recipes.pools import Pool, PoolSelection, pools_from_logs, read_pools, select_pools
from headwater.recipes.tokens import read_markets
from headwater.record_files.record_file import read_content, read_lines
from headwater.settings import Settings

SHOWN_FACTORIES = 5
_ADDRESS = re.compile("0[xX][0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class TableSources:
    """The files and addresses from which the table of a recipe is built.

    Attributes:
        pools: A file of pools.
        logs: Files of `log` records. Their events PairCreated and PoolCreated announce pools.
        markets: A file with the response of Hyperliquid's `meta`.
        factories: Addresses of factories that are allowed in addition to the known ones.
        stablecoins: Addresses of tokens that count as one USD, in addition to the known ones.
        quotes: Addresses of tokens that pools may be quoted in, in addition to the known ones.
    """

    pools: Path | None = None
    _: KW_ONLY
    logs: Sequence[Path] = ()
    markets: Path | None = None
    factories: Sequence[str] = ()
    stablecoins: Sequence[str] = ()
    quotes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RecipeTable:
    """The table of a recipe's script.

    Attributes:
        table: The pools or coins.
        note: A description of the table, for the configuration.
        usd_tokens: The symbols of the tokens that count as one US dollar, by address.
    """

    table: Mapping[str, Any]
    note: str
    usd_tokens: Mapping[str, str]


def table_of(settings: Settings, api: ApiClient, recipe: str, chain: str, sources: TableSources) -> RecipeTable:
    """Build the table of a recipe on a chain. Raises SetupError."""
    if chain == "hyperliquid":
        return _coins(sources)
    if sources.markets:
        raise SetupError(
            "--markets is only for hyperliquid: name a file of pools with --pools, or files of `log` records with "
            "--learn."
        )
    pools, untrusted = _pools(recipe, chain, sources)
    if not pools:
        raise SetupError(
            "There are no pools: name a file of pools with --pools, or files of `log` records with --learn."
            f"{_untrusted(untrusted)}"
        )
    tokens = read_tokens(settings).get(chain, {})
    if not tokens:
        raise SetupError(f"No tokens of {chain} are known: import a Token List with `headwater tokens import` first.")
    stable = {*STABLECOINS.get(chain, {}), *_listed(chain, sources.stablecoins, tokens)}
    quotes = [*QUOTES.get(chain, {}), *_listed(chain, sources.quotes, tokens)]
    selection = select_pools(pools, tokens, stable, quotes)
    if not selection.table:
        raise SetupError(f"None of the pools yields a price: {_left_out(selection)}.")
    note = _note(selection, tokens, api.priced_addresses(chain, selection.quoted)) + _untrusted(untrusted)
    return RecipeTable(selection.table, note, _usd_tokens(pools, tokens, stable))


def _coins(sources: TableSources) -> RecipeTable:
    if sources.pools or sources.logs:
        raise SetupError("The recipe hyperliquid takes no pools: use --markets instead of --pools and --learn.")
    if sources.markets is None:
        raise SetupError("Name a file with the response of Hyperliquid's `meta` by --markets: it has the decimals.")
    coins = read_markets(read_content(sources.markets))
    return RecipeTable(coins, f"Trades of {len(coins)} coins.", {})


def _pools(recipe: str, chain: str, sources: TableSources) -> tuple[list[Pool], Counter[str]]:
    """Return the pools in the files, and the number of untrusted pools by contract.

    An untrusted pool was announced by a contract that is not an allowed factory. It is left out.
    """
    pools = read_pools(_read_text(sources.pools)) if sources.pools else []
    if sources.logs and recipe not in FACTORIES:
        raise SetupError(f"{recipe} has no pool factories whose logs --learn could read: name pools by --pools.")
    factories = {*FACTORIES.get(recipe, {}).get(chain, {}), *map(_factory_address, sources.factories)}
    untrusted = Counter[str]()
    for file in sources.logs:
        announced = pools_from_logs(read_lines(file), factories)
        pools += announced.pools
        untrusted += announced.untrusted
    return pools, untrusted


def _factory_address(address: str) -> str:
    if not _ADDRESS.fullmatch(address):
        raise SetupError(f"{address} is not an address of a factory: it must be 0x and 40 hexadecimal digits.")
    return address.lower()


def _listed(chain: str, addresses: Sequence[str], tokens: Mapping[str, TokenListEntry]) -> list[str]:
    """Return the addresses in the form that they have in records.

    Raises SetupError for an address that is in no imported Token List.
    """
    as_recorded = [as_in_records(address) for address in addresses]
    if missing := [address for address in as_recorded if address not in tokens]:
        raise SetupError(
            f"{missing[0]} is in no imported Token List of {chain}. Import a Token List that contains it; "
            "tokens are named by address, not by symbol."
        )
    return as_recorded


def _usd_tokens(pools: Sequence[Pool], tokens: Mapping[str, TokenListEntry], stable: set[str]) -> dict[str, str]:
    used = {address for pool in pools for address in (pool.first, pool.second)} & stable & tokens.keys()
    return {address: tokens[address].symbol for address in sorted(used)}


def _read_text(file: Path) -> str:
    try:
        return read_content(file).decode()
    except UnicodeDecodeError as error:
        raise SetupError(f"{file} is not UTF-8: {error}.") from error


def _note(selection: PoolSelection, tokens: Mapping[str, TokenListEntry], priced: Collection[str]) -> str:
    """Return a description of the selected pools.

    Args:
        selection: The selected pools.
        tokens: The tokens of the chain, by address.
        priced: The addresses of the quote tokens that already have a price.
    """
    sentences = [f"{selection.in_usd} pools against a stablecoin, which counts as 1 USD."]
    priced_here = {entry.token for entry in selection.table.values() if entry.quote is None}
    for quote, count in selection.quoted.most_common():
        symbol, hint = tokens[quote].symbol, ""
        if quote not in priced_here and quote not in priced:
            hint = f", which has no price yet: also enable a recipe with pools that trade {symbol} against a stablecoin"
        sentences.append(f"{count} pools quoted in {symbol} ({quote}){hint}.")
    if selection.left_out:
        sentences.append(f"Left out: {_left_out(selection)}.")
    return " ".join(sentences)


def _left_out(selection: PoolSelection) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in selection.left_out.items())


def _untrusted(untrusted: Counter[str]) -> str:
    if not untrusted:
        return ""
    shown = ", ".join(f"{factory} ({count})" for factory, count in untrusted.most_common(SHOWN_FACTORIES))
    return (
        f" {untrusted.total()} pools of {len(untrusted)} contracts that are not known factories are left out: {shown}. "
        "If you trust one of these contracts, name it by --factory."
    )
