"""`headwater replay`: writes records from files into a stream."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from headwater.cli.options import KAFKA, takes_settings
from headwater.settings import Settings


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(takes_settings(*KAFKA, "stream_bindings")(replay))


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
        typer.Option(
            min=0,
            help="Replay speed relative to the records' own times: 1 is real time, 10 is ten times as fast; 0 ignores "
            "the times.",
        ),
    ] = 0,
    times: Annotated[
        Literal["keep", "now", "shift"],
        typer.Option(
            help="keep: leave the records' times unchanged; now: set each time to the time of writing; shift: add the "
            "same number of seconds to all times, so that the newest is now (with --pace, so that the first is now)."
        ),
    ] = "keep",
    format_: Annotated[
        Literal["jsonl", "csv", "tsv", "parquet"] | None,
        typer.Option(
            "--format", help="Format of the files; by default it follows from their names.", show_default=False
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option(help="Skip and count invalid records instead of stopping with an error.")
    ] = False,
    zerolag: Annotated[bool, typer.Option(help="Write to the zerolag stream.")] = False,
    delimiter: Annotated[str, typer.Option(help="Separator of the fields in CSV and TSV files, such as ';'.")] = "",
    null: Annotated[
        list[str] | None,
        typer.Option(help=r"A text in CSV and TSV files that stands for null, such as '\N'; may be repeated."),
    ] = None,
) -> None:
    """Write records from files into a stream.

    The command ends when the broker has acknowledged all of them.
    """
    from headwater.app.replay import Replay
    from headwater.app.topic_writer import open_topic_writer
    from headwater.cli.progress import with_progress_bar
    from headwater.errors import SetupError
    from headwater.logging_setup import configure_logging
    from headwater.record_files.formats.base import Dialect

    if len(delimiter) > 1:
        raise SetupError(f"--delimiter {delimiter!r} must be a single character.")
    if rate and pace:
        raise SetupError("--rate and --pace can't be combined: use one of them.")
    configure_logging("warning")
    source = Replay(
        chain,
        entity,
        files,
        format=format_ or "",
        time_mode=times,
        pace=pace,
        skip_bad=skip_bad,
        dialect=Dialect(delimiter, frozenset(null or [])),
    )
    with open_topic_writer(settings, chain, entity, zerolag=zerolag) as writer:
        records = with_progress_bar(source.records(), source.size(), source.bytes_read)
        written = writer.write_lines(records, rate)
    print("\n".join([f"{written} records written to {writer.topic}", *source.notes()]))
