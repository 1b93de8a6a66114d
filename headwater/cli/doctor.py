"""`headwater doctor`: lists stored data that needs manual repair."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from headwater.cli.options import DATABASE, takes_settings, wide_console
from headwater.settings import Settings


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(takes_settings(*DATABASE)(doctor))


def doctor(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List stored rows that this version can't read, and what to do.

    The exit status is 1 when there are such rows.
    """
    from rich.table import Table
    from rich.text import Text

    from headwater.app.doctor import examine

    rows = examine(settings)
    if as_json:
        for row in rows:
            print(json.dumps(asdict(row), ensure_ascii=False))
    elif rows:
        table = Table("kind", "id", "owner", "what is wrong, and what to do")
        for row in rows:
            table.add_row(row.kind, Text(row.id), Text(row.owner), Text(row.reason))
        wide_console().print(table)
    else:
        print("All stored data can be read.")
    raise typer.Exit(1 if rows else 0)
