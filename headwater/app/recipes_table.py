"""What a price recipe's script is given: pools with tokens of imported lists, or coins."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.app.recipes import Api, read_file, read_tokens
from headwater.errors import SetupError
from headwater.ingest.files import read_lines
from headwater.services.recipes import pools as pool_files
from headwater.services.recipes.tokens import read_markets, stablecoins
from headwater.settings import Settings


def table_of(
    settings: Settings, api: Api, chain: str, *, pools: Path | None, learn: Sequence[Path], markets: Path | None
) -> tuple[dict[str, Any], str]:
    """The table, and a sentence that says what is in it. Raises SetupError."""
    if chain == "hyperliquid":
        if pools or learn:
            raise SetupError("--pools and --learn are for other recipes: hyperliquid has coins, of --markets.")
        if markets is None:
            raise SetupError("Name a file with the answer of Hyperliquid's `meta` by --markets: it has the decimals.")
        coins = read_markets(read_file(markets))
        return coins, f"Trades of {len(coins)} coins."
    if markets:
        raise SetupError("--markets is for hyperliquid alone: name pools by --pools FILE or --learn FILE.")
    found = pool_files.read(_text(pools)) if pools else []
    for file in learn:
        found += pool_files.learned(read_lines(file))
    if not found:
        raise SetupError("Name pools by --pools FILE or --learn FILE; these have none.")
    tokens = read_tokens(settings).get(chain, {})
    if not tokens:
        raise SetupError(f"No tokens of {chain} are known: `headwater tokens import` a Token List first.")
    stable = stablecoins(tokens)
    others = {address for pool in found for address in (pool.first, pool.second)} & tokens.keys() - stable
    choice = pool_files.choose(found, tokens, stable, api.usd(chain, others))
    if not choice.table:
        raise SetupError(f"None of the pools can tell a price: {_words(choice.left_out)}.")
    return choice.table, _note(choice)


def _text(file: Path) -> str:
    try:
        return read_file(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SetupError(f"{file} is no UTF-8: {error}.") from error


def _note(choice: pool_files.Choice) -> str:
    parts = [f"{choice.exact} pools against a stablecoin, which counts as 1 USD."]
    if choice.approximate:
        parts.append(
            f"{choice.approximate} pools against another token, at its price of the moment when this was made: "
            "enable the recipe again to bring it up to date."
        )
    if choice.left_out:
        parts.append(f"Left out: {_words(choice.left_out)}.")
    return " ".join(parts)


def _words(left_out: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in left_out.items())
