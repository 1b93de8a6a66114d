"""`headwater demo`: runs a demo on a temporary installation."""

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import takes_settings
from headwater.settings import Settings


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(takes_settings("cache_dir", "kafka_java")(demo))


def demo(
    settings: Settings,
    file: Annotated[
        Path | None, typer.Option(help="A JSON lines file of recorded records, instead of generated ones.")
    ] = None,
    chain: Annotated[str, typer.Option(help="Chain of the recorded records.")] = "base",
    entity: Annotated[str, typer.Option(help="Entity of the recorded records.")] = "log",
    records: Annotated[int, typer.Option(min=1000, help="How many records to generate.")] = 112_000,
    keep: Annotated[bool, typer.Option("--keep", help="Continue to run and to write records until Ctrl-C.")] = False,
) -> None:
    """Run a demo on a temporary installation.

    The demo plans and applies pipelines in files, shows live records, changes a filter live, verifies the results,
    shows prices, and stops.
    """
    from rich.console import Console

    from headwater.app.topic_writer import write_to_stream
    from headwater.cli.demo.demo import Demo
    from headwater.cli.demo.streams import generated, recorded
    from headwater.logging_setup import configure_logging

    configure_logging("warning")
    stream = recorded(file, chain, entity) if file else generated(records)
    raise typer.Exit(Demo(stream, settings, write_to_stream, Console(), keep=keep).run())
