"""`headwater keys`: make, list and revoke API keys."""

from typing import Annotated

import typer
from rich.table import Table

from headwater.cli.options import takes_settings, wide_console
from headwater.model.key import DEFAULT_SCOPES, SCOPES
from headwater.settings import Settings

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
PLACES = ("data_dir", "database_url", "secret_key")


def _create(
    settings: Settings,
    owner: Annotated[str, typer.Option(help="Whom the key speaks for; owners see their own objects only.")],
    scope: Annotated[list[str] | None, typer.Option(help=f"May be repeated: {', '.join(SCOPES)}.")] = None,
) -> None:
    """Make a key and print it, alone, on standard output. It can't be shown again."""
    from headwater.app.control import keys_of

    with keys_of(settings) as keys:
        print(keys.create(owner, tuple(scope) if scope else DEFAULT_SCOPES))


def _list(settings: Settings) -> None:
    """List all keys, without their secrets."""
    from headwater.app.control import keys_of

    table = Table("key id", "owner", "scopes", "created", "last used", "state")
    with keys_of(settings) as keys:
        for key in keys.list():
            used = f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never"
            state = "revoked" if key.revoked_at else "live"
            table.add_row(key.id, key.owner, " ".join(key.scopes), f"{key.created_at:%Y-%m-%d %H:%M}", used, state)
    wide_console().print(table)


def _revoke(
    settings: Settings, key_id: Annotated[str, typer.Argument(help="The 12 characters after `hw_live_`.")]
) -> None:
    """Revoke a key. It is refused within 5 s."""
    from headwater.app.control import keys_of

    with keys_of(settings) as keys:
        keys.revoke(key_id)


app.command("create")(takes_settings(*PLACES)(_create))
app.command("list")(takes_settings(*PLACES)(_list))
app.command("revoke")(takes_settings(*PLACES)(_revoke))
