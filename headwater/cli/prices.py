"""Commands of the token prices."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import KAFKA, takes_settings
from headwater.settings import Settings

app = typer.Typer(help="Token prices: the worker that keeps them, and what feeds them.", no_args_is_help=True)
tokens_app = typer.Typer(help="Tokens and their decimals, which price recipes need.", no_args_is_help=True)


def worker(settings: Settings) -> None:
    """Fold ticks into prices, against the addresses in settings; several workers share the work."""
    from headwater.app.prices import run
    from headwater.telemetry import configure_logging

    configure_logging(settings.log_level)
    run(settings)


def enable(
    settings: Settings,
    recipe: Annotated[str, typer.Argument(help="uniswap-v3, uniswap-v2, orca or hyperliquid.")],
    chain: Annotated[str, typer.Option(help="Chain of the trades; may be left out where there is only one.")] = "",
    entity: Annotated[str, typer.Option(help="Kind of record to read: log or decoded_log.")] = "",
    pools: Annotated[Path | None, typer.Option(help="JSON or CSV: address, token0, token1 of each pool.")] = None,
    learn: Annotated[
        list[Path] | None,
        typer.Option(help="JSON lines of logs: PairCreated and PoolCreated of known factories name pools."),
    ] = None,
    factory: Annotated[
        list[str] | None, typer.Option(help="Address of a factory that --learn trusts beside the known ones.")
    ] = None,
    stablecoin: Annotated[
        list[str] | None, typer.Option(help="Address of a token that counts as one USD beside the known ones.")
    ] = None,
    quote: Annotated[
        list[str] | None, typer.Option(help="Address of a token that pools may be quoted in beside the usual ones.")
    ] = None,
    markets: Annotated[Path | None, typer.Option(help="An answer of Hyperliquid's `meta`.")] = None,
    url: Annotated[str, typer.Option(help="Address of the API; default: this machine's.")] = "",
    deploy: Annotated[bool, typer.Option(help="Deploy it as well.")] = True,
) -> None:
    """Make a price pipeline, or bring it up to date; it is an ordinary configuration. docs/prices.md tells more."""
    from headwater.app.recipes import Api
    from headwater.app.recipes_table import TableSources, table_of
    from headwater.services.recipes import find

    known, chain, entity = find(recipe, chain, entity)
    with closing(Api(settings, url)) as api:
        sources = TableSources(pools, learn or (), markets, factory or (), stablecoin or (), quote or ())
        made_of = table_of(settings, api, known.name, chain, sources)
        made = api.put(known.configuration(chain, entity, made_of.table, made_of.note))
        if deploy:
            api.deploy(made)
    for address, symbol in made_of.dollars.items():
        print(f"{symbol} ({address}) counts as one USD.")
    print(f"{made_of.note}\nConfiguration {made}{' is deployed' if deploy else ''}.")


def import_(
    settings: Settings,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Ticks as JSON lines, CSV or Parquet, compressed or not.")
    ],
) -> None:
    """Write ticks from files into the prices, so that they begin with a history. Repeats change nothing."""
    from itertools import chain as concatenated

    from headwater.app.price_import import import_ticks
    from headwater.ingest.files import RecordFile
    from headwater.telemetry import configure_logging

    configure_logging("warning")
    done = import_ticks(settings, concatenated.from_iterable(RecordFile(path, check=False) for path in files))
    print(f"{done.written} ticks written")
    for number, failure in done.shown:
        print(f"record {number} is no tick: {failure.message}")
    if done.refused:
        print(f"{done.refused} records are no ticks")
        raise typer.Exit(1)


def import_tokens(
    settings: Settings,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Token Lists as JSON; .gz is unpacked.")],
) -> None:
    """Add the tokens of some Token Lists to those that price recipes know."""
    from headwater.app.recipes import add_tokens

    for chain, known in add_tokens(settings, files).items():
        print(f"{chain}: {len(known)} tokens")


app.command()(takes_settings()(worker))
app.command()(takes_settings("data_dir", "host", "port")(enable))
app.command("import")(takes_settings(*KAFKA)(import_))
tokens_app.command("import")(takes_settings("data_dir")(import_tokens))


@tokens_app.callback()
def _tokens() -> None:
    """Makes `import` a command of its own, although it is the only one."""
