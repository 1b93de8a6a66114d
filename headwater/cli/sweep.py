"""`headwater sweep`: lists resources that the database does not record, and removes them."""

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.options import DATABASE, KAFKA, exit_with_error, takes_settings, wide_console
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.controller.resource_names import ResourceNames


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(takes_settings(*dict.fromkeys((*DATABASE, *KAFKA, "stream_bindings")))(sweep))


def sweep(
    settings: Settings,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]…", help="Ids of listed deployments or configurations; default: all."),
    ] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Remove the listed resources.")] = False,
) -> None:
    """List topics, users and groups of unknown deployments, and remove them with --confirm.

    Such resources exist after the database was restored from a backup, or when several installations share one Kafka
    cluster. With --confirm, their deployments are recorded as ended, and a running controller removes the resources.
    Deployments whose workers run now are only recorded when their ids are named. Workers that read Pub/Sub, or a Kafka
    cluster that is not in the stream bindings, are not seen.
    """
    from headwater.app.sweep import find_unknown_resources
    from headwater.logging_setup import configure_logging

    configure_logging("warning")
    with find_unknown_resources(settings) as unknown_resources:
        unknown_resources.require_listed(ids or [])
        names = unknown_resources.names
        if not names:
            print("Kafka and Pub/Sub have no resources that this database does not record.")
            return
        _print_table(names, unknown_resources.active_deployments)
        if not confirm:
            print("Nothing was removed. To remove these resources: headwater sweep --confirm [ID]…")
            return
        ended_ids = unknown_resources.record_as_ended(ids or [])
        print(f"Recorded as ended: {', '.join(sorted(ended_ids))}. The controller removes their resources …")
        if not unknown_resources.wait_until_removed(ended_ids):
            exit_with_error(
                "The deployments are recorded as ended, but their resources are not removed yet. Check that a "
                "`headwater controller` runs, and look at its log."
            )
        print("Removed.")


def _print_table(unknown: "ResourceNames", active_deployments: frozenset[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from headwater.controller.resource_names import config_id_of, deployment_id_of

    table = Table("kind", "name", "deployment", "configuration", "note")
    for topic in sorted(unknown.topics):
        table.add_row("topic", Text(topic), "", config_id_of(topic))
    for kind, names in (
        ("user", unknown.users),
        ("group", unknown.groups),
        ("group of another cluster", unknown.external_groups),
        ("subscription", unknown.subscriptions),
    ):
        for name in sorted(names):
            deployment_id = deployment_id_of(name) or ""
            note = "its workers run" if deployment_id in active_deployments else ""
            table.add_row(kind, Text(name), deployment_id, "", note)
    wide_console().print(table)
    print(
        "The column `note` does not show workers that read Pub/Sub, or a Kafka cluster that is not in the stream "
        "bindings: they may run too."
    )
