"""`headwater keys`: manages API keys, prints links to sign in, rotates the secret key."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headwater.cli.options import DATABASE, as_utc, takes_settings, wide_console
from headwater.errors import InvalidInput
from headwater.model.key import DEFAULT_SCOPES, KEY_CACHE_S, PREFIX, SCOPES
from headwater.settings import Settings

app = typer.Typer(help="Create, list and revoke API keys, and rotate the secret key.", no_args_is_help=True)
DEFAULT = f"Default: {', '.join(DEFAULT_SCOPES)}."
SCOPE_HELP = f"May be repeated: {', '.join(SCOPES)}. {DEFAULT} admin is reserved: it grants nothing yet."
REVOKE_HELP = f"Revoke a key. The API refuses it after {KEY_CACHE_S:.0f} s at the latest."


def _create(
    settings: Settings,
    owner: Annotated[str, typer.Option(help="Owner of the key; a key gives access to the objects of its owner only.")],
    scope: Annotated[list[str] | None, typer.Option(help=SCOPE_HELP)] = None,
    expires: Annotated[datetime | None, typer.Option(help="Expiry time (UTC); default: never.")] = None,
) -> None:
    """Create a key, and print only the key on standard output. It can't be shown again."""
    from headwater.app.database import installation_keys

    with installation_keys(settings) as keys:
        print(keys.create(owner, tuple(scope) if scope else DEFAULT_SCOPES, as_utc(expires)))


def _list(settings: Settings) -> None:
    """List all keys, without their secrets."""
    from headwater.app.database import installation_keys

    table = Table("key id", "owner", "scopes", "created", "expires", "last used", "state")
    with installation_keys(settings) as keys:
        for key in keys.list():
            times = (_time_text(time) for time in (key.created_at, key.expires_at, key.last_used_at))
            table.add_row(Text(key.id), Text(key.owner), " ".join(key.scopes), *times, key.state(datetime.now(UTC)))
    wide_console().print(table)


def _time_text(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "never"


def _revoke(
    settings: Settings, key_id: Annotated[str, typer.Argument(help="The 12 characters after `hw_live_`.")]
) -> None:
    """Revoke a key by its id."""
    from headwater.app.database import installation_keys

    if key_id.startswith(PREFIX):
        raise InvalidInput("Pass only the 12 characters after hw_live_; the rest of the key is secret.")
    with installation_keys(settings) as keys:
        keys.revoke(key_id)


def _sign_in_link(settings: Settings) -> None:
    """Print a link that signs in to the console, once and within 60 s.

    The link has a one-time code for a key that is valid for 12 hours. The key has the owner and the scopes of the key
    in the file api-key of the data directory.
    """
    from headwater.app.sign_in import create_sign_in_link

    print(create_sign_in_link(settings))


def _rotate_secret(settings: Settings) -> None:
    """Encrypt all stored credentials with the secret key instead of HEADWATER_OLD_SECRET_KEY.

    The command may be repeated. It then continues a rotation that was interrupted.
    """
    from headwater.app.secret_key_rotation import rotate_secret_key

    result = rotate_secret_key(settings)
    print(f"Encrypted the credentials of {result.encrypted} deployments with the secret key.")
    if result.unreadable:
        print(
            f"Neither key decrypts the credentials of {result.unreadable} deployments; `headwater doctor` lists these "
            "deployments."
        )
    print("Remove HEADWATER_OLD_SECRET_KEY from the settings of all processes, and make a new backup.")


app.command("create")(takes_settings(*DATABASE)(_create))
app.command("list")(takes_settings(*DATABASE)(_list))
app.command("revoke", help=REVOKE_HELP)(takes_settings(*DATABASE)(_revoke))
app.command("sign-in-link")(takes_settings(*DATABASE, "host", "port")(_sign_in_link))
app.command("rotate-secret")(takes_settings(*DATABASE)(_rotate_secret))
