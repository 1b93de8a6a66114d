"""Commands around a running Headwater: feed a stream, show settings, the demo."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from headwater.cli.options import KAFKA, origin, takes_settings, wide_console
from headwater.settings import Settings, variable


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(takes_settings(*KAFKA, "stream_bindings")(replay))
    app.command()(takes_settings("cache_dir")(demo))
    app.command("settings")(takes_settings()(show_settings))


def replay(
    settings: Settings,
    chain: Annotated[str, typer.Option(help="The stream's chain.")],
    entity: Annotated[str, typer.Option(help="The stream's entity.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="JSON lines, CSV or Parquet, compressed or not; - is standard input."),
    ],
    rate: Annotated[float, typer.Option(min=0, help="Records a second; 0 is as fast as possible.")] = 0,
    pace: Annotated[
        float,
        typer.Option(min=0, help="Keep the distances of the records' times: 1 as they were, 10 ten times as fast."),
    ] = 0,
    times: Annotated[
        Literal["keep", "now", "shift"],
        typer.Option(help="The records' times: kept; now; or all shifted by the same, so that they end now."),
    ] = "keep",
    format_: Annotated[
        Literal["jsonl", "csv", "tsv", "parquet"] | None,
        typer.Option("--format", help="Of the files; else by their names.", show_default=False),
    ] = None,
    skip_bad: Annotated[bool, typer.Option(help="Leave out and count what is no record; else it is an error.")] = False,
    zerolag: Annotated[bool, typer.Option(help="Into the stream's zerolag feed.")] = False,
    delimiter: Annotated[str, typer.Option(help="Between the fields of CSV and TSV files, such as ';'.")] = "",
    null: Annotated[
        list[str] | None, typer.Option(help=r"A text of CSV and TSV files that means null, such as '\N'; repeatable.")
    ] = None,
) -> None:
    """Write records from files into a stream; returns when the broker has all of them."""
    from headwater.app.feeder import open_feeder
    from headwater.app.replay import Replay
    from headwater.cli.progress import shown
    from headwater.errors import SetupError
    from headwater.ingest.formats.base import Dialect
    from headwater.telemetry import configure_logging

    if len(delimiter) > 1:
        raise SetupError(f"--delimiter {delimiter!r} is no single character.")
    if rate and pace:
        raise SetupError("--rate and --pace are two speeds: give one of them.")
    configure_logging("warning")
    source = Replay(
        chain, entity, files, format_ or "", times, pace, skip_bad, Dialect(delimiter, frozenset(null or []))
    )
    with open_feeder(settings, chain, entity, zerolag=zerolag) as feeder:
        written = feeder.feed(shown(source.records(), source.size(), source.done), rate)
    print("\n".join([f"{written} records written to {feeder.topic}", *source.notes()]))


def demo(
    settings: Settings,
    file: Annotated[Path | None, typer.Option(help="JSON lines of recorded records, to use instead.")] = None,
    chain: Annotated[str, typer.Option(help="Chain of the recorded records.")] = "base",
    entity: Annotated[str, typer.Option(help="Entity of the recorded records.")] = "log",
    records: Annotated[int, typer.Option(min=1000, help="How many records to generate.")] = 112_000,
) -> None:
    """The whole story on a throw-away installation: deploy, feed, read, change a filter live, check, tear down."""
    from rich.console import Console

    from headwater.app.feeder import feed_into
    from headwater.cli.demo.story import Story
    from headwater.cli.demo.streams import generated, recorded
    from headwater.telemetry import configure_logging

    configure_logging("warning")
    stream = recorded(file, chain, entity) if file else generated(records)
    raise typer.Exit(Story(stream, settings.cache_dir, feed_into, Console()).tell())


def show_settings(settings: Settings, context: typer.Context) -> None:
    """Show every setting, its variable, and where its value came from; secrets are hidden."""
    from rich.table import Table

    table = Table("variable", "value", "from", "meaning")
    for name, field in Settings.model_fields.items():
        came_from = origin(name, settings, context.params)
        table.add_row(variable(name), str(getattr(settings, name)), came_from, field.description or "")
    wide_console().print(table)
