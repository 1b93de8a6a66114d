"""Commands for token prices."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import KAFKA, takes_settings
from headwater.settings import Settings

app = typer.Typer(
    help="Token prices: the prices worker, and the pipelines and imports that supply ticks.", no_args_is_help=True
)
tokens_app = typer.Typer(help="Tokens and their decimals, which price recipes need.", no_args_is_help=True)


def worker(settings: Settings) -> None:
    """Run a prices worker, which computes prices from ticks.

    Several prices workers share the partitions of the ticks topic. The settings name Kafka and Valkey or Redis.
    """
    from headwater.app.prices_worker import run
    from headwater.logging_setup import configure_logging

    configure_logging(settings.log_level)
    run(settings)


def enable(
    settings: Settings,
    recipe: Annotated[str, typer.Argument(help="uniswap-v3, uniswap-v2, orca or hyperliquid.")],
    chain: Annotated[str, typer.Option(help="Chain of the trades; may be omitted when there is only one.")] = "",
    entity: Annotated[str, typer.Option(help="Kind of record to read: log or decoded_log.")] = "",
    pools: Annotated[Path | None, typer.Option(help="JSON or CSV: address, token0, token1 of each pool.")] = None,
    learn: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSON-lines files of `log` records; pools are learned from the PairCreated and PoolCreated events of "
            "known factories."
        ),
    ] = None,
    factory: Annotated[
        list[str] | None, typer.Option(help="Address of a factory that --learn trusts in addition to the known ones.")
    ] = None,
    stablecoin: Annotated[
        list[str] | None, typer.Option(help="Address of a token that counts as one USD, in addition to the known ones.")
    ] = None,
    quote: Annotated[
        list[str] | None,
        typer.Option(help="Address of a token that pools may be quoted in, in addition to the known ones."),
    ] = None,
    markets: Annotated[Path | None, typer.Option(help="A response of Hyperliquid's `meta`.")] = None,
    url: Annotated[str, typer.Option(help="URL of the API; default: the one on this machine.")] = "",
    deploy: Annotated[bool, typer.Option(help="Also deploy the configuration.")] = True,
) -> None:
    """Create or update a price pipeline, which is an ordinary configuration.

    See docs/prices.md.
    """
    from headwater.app.api_client import ApiClient
    from headwater.app.recipe_tables import TableSources, table_of
    from headwater.recipes import find_recipe

    recipe_, chain, entity = find_recipe(recipe, chain, entity)
    with closing(ApiClient(settings, url)) as api:
        sources = TableSources(
            pools,
            logs=learn or (),
            markets=markets,
            factories=factory or (),
            stablecoins=stablecoin or (),
            quotes=quote or (),
        )
        recipe_table = table_of(settings, api, recipe_.name, chain, sources)
        body = recipe_.configuration(chain, entity, recipe_table.table, recipe_table.note)
        config_id = api.create_or_update(body)
        if deploy:
            api.deploy(config_id)
    for address, symbol in recipe_table.usd_tokens.items():
        print(f"{symbol} ({address}) counts as one USD.")
    print(f"{recipe_table.note}\nConfiguration {config_id}{' is deployed' if deploy else ''}.")


def import_(
    settings: Settings,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Ticks as JSON lines, CSV or Parquet, compressed or not.")
    ],
) -> None:
    """Import ticks from files, so that the prices have a history.

    A repeated import changes nothing.
    """
    from itertools import chain as concatenated

    from headwater.app.price_import import import_ticks
    from headwater.logging_setup import configure_logging
    from headwater.record_files.record_file import RecordFile

    configure_logging("warning")
    result = import_ticks(settings, concatenated.from_iterable(RecordFile(path, check=False) for path in files))
    print(f"{result.written} ticks written")
    for number, failure in result.rejected_examples:
        print(f"record {number} is not a valid tick: {failure.message}")
    if result.rejected:
        print(f"{result.rejected} records were rejected")
        raise typer.Exit(1)


def import_tokens(
    settings: Settings,
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Token Lists as JSON; .gz is unpacked.")],
) -> None:
    """Import the tokens of Token Lists, for price recipes."""
    from headwater.app.token_lists import add_tokens

    for chain, tokens in add_tokens(settings, files).items():
        print(f"{chain}: {len(tokens)} tokens")


app.command()(takes_settings()(worker))
app.command()(takes_settings("data_dir", "host", "port")(enable))
app.command("import")(takes_settings(*KAFKA)(import_))
tokens_app.command("import")(takes_settings("data_dir")(import_tokens))


@tokens_app.callback()
def _tokens() -> None:
    """A callback makes typer keep the subcommand `import`, although it is the only one."""
