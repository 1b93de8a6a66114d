"""`headwater backup` and `restore`: save the state of an installation in one file.

The file contains the database, the secret key, the API key of the owner `local`, the imported tokens and ABIs, and the
data of Valkey.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.options import DATABASE, takes_settings
from headwater.settings import Settings

BACKUP_SETTINGS = (*DATABASE, "redis_url")


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(takes_settings(*BACKUP_SETTINGS)(backup))
    app.command()(takes_settings(*BACKUP_SETTINGS)(restore))


def backup(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    without_secret_key: Annotated[
        bool,
        typer.Option(
            "--without-secret-key",
            help="Leave out the secret key and the API key of the owner `local`; keep the files `secret-key` and "
            "`api-key` elsewhere.",
        ),
    ] = False,
) -> None:
    """Write the database, the secret key and the data of Valkey into one file.

    The file is then verified. Headwater may run meanwhile.
    """
    from headwater.app.backup import backup as write
    from headwater.logging_setup import configure_logging

    configure_logging("warning")
    manifest = write(settings, file, with_secret_key=not without_secret_key)
    print(f"{file}: {_describe(manifest)}. The backup was verified.")
    if not without_secret_key:
        print("The backup contains the secret key: keep it as safe as a password.")


def restore(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `headwater backup`.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the existing database and the data of Valkey.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
) -> None:
    """Verify a backup, and replace the data of a stopped installation by the backup.

    Kafka's data is not changed.
    """
    from headwater.app.backup import restore as restore_backup
    from headwater.app.backup import verify
    from headwater.logging_setup import configure_logging

    configure_logging("warning")
    if check:
        print(f"{file}: {_describe(verify(file))}. The backup is complete.")
        return
    manifest = restore_backup(settings, file, replace=replace)
    print(f"Restored {_describe(manifest)}.")
    if skipped := manifest["skipped_entries"]:
        print(
            f"{skipped} keys were skipped, because this Valkey or Redis is older than that of the backup. Prices are "
            "computed again; earlier metrics are lost."
        )
    print(
        "Kafka resources of deployments that are newer than the backup are kept. Start Headwater and list them with "
        "`headwater sweep`."
    )


def _describe(manifest: dict[str, Any]) -> str:
    database = manifest["members"]["database.jsonl"]["lines"]
    sets = manifest["members"]["set-store.jsonl"]["lines"]
    return (
        f"a backup of {manifest['created_at']} with {database.get('flows', 0)} configurations, "
        f"{database.get('deployments', 0)} deployments (ended ones included), {database.get('api_keys', 0)} keys "
        f"and {sets.get('sets', 0)} sets"
    )
