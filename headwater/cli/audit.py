"""`headwater audit`: shows who changed what."""

import json
from datetime import datetime
from typing import Annotated

import typer

from headwater.cli.options import DATABASE, as_utc, takes_settings, wide_console
from headwater.model.audit import AuditEntry, AuditQuery
from headwater.settings import Settings

COLUMNS = ("at", "key_id", "ip", "owner", "action", "object", "state", "before", "after")


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(takes_settings(*DATABASE)(audit))


def audit(
    settings: Settings,
    owner: Annotated[str | None, typer.Option(help="Only changes of this owner's objects.")] = None,
    object_id: Annotated[
        str | None,
        typer.Option(
            "--object",
            help="Only changes of the object with this id; for a configuration, also changes of its filters.",
        ),
    ] = None,
    since: Annotated[datetime | None, typer.Option(help="Only changes at or after this time (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(help="Only changes before this time (UTC).")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of entries.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show the audit log: who changed what, newest first."""
    from headwater.app.database import installation_audit_log

    query = AuditQuery(owner, object_id, as_utc(since), as_utc(until), limit)
    with installation_audit_log(settings) as log:
        rows = [_row(entry) for entry in log.read(query)]
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        _print_table(rows)


def _row(entry: AuditEntry) -> dict[str, str]:
    change = entry.change
    return {
        "at": entry.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "key_id": entry.key_id,
        "ip": entry.ip,
        "owner": change.owner,
        "action": change.action,
        "object": change.object,
        "state": entry.state,
        "before": change.before,
        "after": change.after,
        "request_id": entry.request_id,
    }


def _print_table(rows: list[dict[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*(Text(row[column]) for column in COLUMNS))
    wide_console().print(table)
