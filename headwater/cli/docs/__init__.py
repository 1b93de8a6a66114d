"""`headwater docs`: writes the reference pages that are generated from the code."""

from pathlib import Path
from typing import Annotated

import typer

REFERENCE = Path("docs/reference")


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(docs)


def docs(out: Annotated[Path, typer.Option(help="Directory to write to.")] = REFERENCE) -> None:
    """Write the reference pages that are generated from the code."""
    from headwater.cli.docs.pages import PAGES

    out.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (out / name).write_text(page(), "utf-8")
