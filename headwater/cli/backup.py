"""`headwater backup` and `headwater restore`: the database, the secret key and the set store in one file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.options import DATABASE, takes_settings
from headwater.settings import Settings

PLACES = (*DATABASE, "redis_url")


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(takes_settings(*PLACES)(backup))
    app.command()(takes_settings(*PLACES)(restore))


def backup(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    without_key: Annotated[
        bool, typer.Option("--without-secret-key", help="Leave the secret key out; keep it elsewhere.")
    ] = False,
) -> None:
    """Write the database, the secret key and the set store into one file, while Headwater runs, and check it."""
    from headwater.app.backup import backup as write
    from headwater.telemetry import configure_logging

    configure_logging("warning")
    manifest = write(settings, file, with_key=not without_key)
    print(f"{file}: {_told(manifest)}. It was read back and is whole.")
    if not without_key:
        print("It holds the secret key: keep it as safe as a password.")


def restore(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `headwater backup`.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the database and set store that are there.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
) -> None:
    """Check a backup, and put it in place of what a stopped installation has. Kafka's data stays as it is."""
    from headwater.app.backup import restore as put_back
    from headwater.app.backup import verify
    from headwater.telemetry import configure_logging

    configure_logging("warning")
    if check:
        print(f"{file}: {_told(verify(file))}. It is whole.")
        return
    manifest = put_back(settings, file, replace=replace)
    print(f"Restored {_told(manifest)}.")
    if unreadable := manifest["unreadable_keys"]:
        print(f"{unreadable} keys of a newer set store (prices, metrics) were left out; they are made anew.")
    print(
        "What was deployed after the backup stays on Kafka untouched: `headwater sweep` lists it once Headwater runs."
    )


def _told(manifest: dict[str, Any]) -> str:
    database = manifest["members"]["database.jsonl"]["lines"]
    sets = manifest["members"]["set-store.jsonl"]["lines"]
    return (
        f"a backup of {manifest['created_at']} with {database.get('flows', 0)} configurations, "
        f"{database.get('deployments', 0)} deployments (ended ones included), {database.get('api_keys', 0)} keys "
        f"and {sets.get('sets', 0)} sets"
    )
