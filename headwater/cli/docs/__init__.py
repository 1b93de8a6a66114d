"""`headwater docs`: writes the reference pages that are generated from the code. One file per page."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.docs import configuration, endpoints, errors, limits, openapi, settings, streams

REFERENCE = Path("docs/reference")

PAGES: dict[str, Callable[[], str]] = {
    "openapi.json": openapi.page,
    "endpoints.md": endpoints.page,
    "configuration.md": configuration.page,
    "limits.md": limits.page,
    "errors.md": errors.page,
    "streams.md": streams.page,
    "settings.md": settings.page,
}


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(docs)


def docs(out: Annotated[Path, typer.Option(help="Directory to write to.")] = REFERENCE) -> None:
    """Write the reference pages that are generated from the code."""
    out.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (out / name).write_text(page(), "utf-8")
