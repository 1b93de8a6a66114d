"""`headwater keys`: make, list and revoke API keys."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headwater.cli.options import DATABASE, as_utc, takes_settings, wide_console
from headwater.errors import InvalidInput
from headwater.model.key import DEFAULT_SCOPES, PREFIX, SCOPES
from headwater.settings import Settings

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
DEFAULT = f"Default: {', '.join(DEFAULT_SCOPES)}."
SCOPE_HELP = f"May be repeated: {', '.join(SCOPES)}. {DEFAULT} admin is reserved: it grants nothing yet."


def _create(
    settings: Settings,
    owner: Annotated[str, typer.Option(help="Whom the key speaks for; owners see their own objects only.")],
    scope: Annotated[list[str] | None, typer.Option(help=SCOPE_HELP)] = None,
    expires: Annotated[datetime | None, typer.Option(help="When it stops being good (UTC); default: never.")] = None,
) -> None:
    """Make a key and print it, alone, on standard output. It can't be shown again."""
    from headwater.app.control import keys_of

    with keys_of(settings) as keys:
        print(keys.create(owner, tuple(scope) if scope else DEFAULT_SCOPES, as_utc(expires)))


def _list(settings: Settings) -> None:
    """List all keys, without their secrets."""
    from headwater.app.control import keys_of

    table = Table("key id", "owner", "scopes", "created", "expires", "last used", "state")
    with keys_of(settings) as keys:
        for key in keys.list():
            times = (_shown(time) for time in (key.created_at, key.expires_at, key.last_used_at))
            table.add_row(Text(key.id), Text(key.owner), " ".join(key.scopes), *times, key.state(datetime.now(UTC)))
    wide_console().print(table)


def _shown(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "never"


def _revoke(
    settings: Settings, key_id: Annotated[str, typer.Argument(help="The 12 characters after `hw_live_`.")]
) -> None:
    """Revoke a key. It is refused within 5 s."""
    from headwater.app.control import keys_of

    if key_id.startswith(PREFIX):
        raise InvalidInput("Name the key by the 12 characters after hw_live_ alone; the rest of it is its secret.")
    with keys_of(settings) as keys:
        keys.revoke(key_id)


app.command("create")(takes_settings(*DATABASE)(_create))
app.command("list")(takes_settings(*DATABASE)(_list))
app.command("revoke")(takes_settings(*DATABASE)(_revoke))
