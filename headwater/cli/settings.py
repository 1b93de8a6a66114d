"""`headwater settings`: shows every setting and the source of its value."""

import typer

from headwater.cli.options import setting_source, takes_settings, wide_console
from headwater.settings import Settings, environment_variable


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("settings")(takes_settings()(show_settings))


def show_settings(settings: Settings, context: typer.Context) -> None:
    """Show every setting with its variable, its value and the source of the value.

    Secrets are hidden.
    """
    from rich.table import Table

    table = Table("variable", "value", "from", "meaning")
    for name, field in Settings.model_fields.items():
        source = setting_source(name, settings, context.params)
        table.add_row(environment_variable(name), str(getattr(settings, name)), source, field.description or "")
    wide_console().print(table)
