"""Commands for records that could not be processed."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from headwater_client.cli import formatting
from headwater_client.cli.command import Run, command, group
from headwater_client.cli.exit_codes import FAILED, USAGE, CommandError
from headwater_client.cli.flows import FlowArgument, YesOption
from headwater_client.cli.output import Column

if TYPE_CHECKING:
    from headwater_client import Flow
    from headwater_client.models.dead_letters import Redrive

app = group("Dead letters: records that could not be processed.")

ErrorOption = Annotated[str | None, typer.Option("--error", help="Only this class of error.")]
TransformOption = Annotated[
    str | None, typer.Option("--transform", help="Only this transform (name or uid), or this sink.")
]


def _uid(flow: "Flow", name: str | None) -> str | None:
    """Return the uid of the transform with this name; another text as it is."""
    named = (each.uid for each in flow.config.pipeline.transforms if each.name == name)
    return next(named, name)


def _names(flow: "Flow") -> dict[str, str]:
    return {each.uid: each.name or each.uid for each in flow.config.pipeline.transforms}


def _where(names: dict[str, str], transform: str, *numbers: int | None) -> str:
    return ":".join([names.get(transform, transform), *(str(number) for number in numbers if number is not None)])


@command(app, "list")
def list_(
    run: Run,
    flow: FlowArgument,
    error: ErrorOption = None,
    transform: TransformOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of newest letters.")] = 20,
) -> None:
    """List the newest dead letters."""
    found = run.flow(flow)
    letters = list(islice(found.dead_letters.list(error=error, transform=_uid(found, transform)), limit))
    if run.out.as_json:
        run.out.json(letters)
        return
    names = _names(found)
    columns = [
        Column("ID"),
        Column("AGE", True),
        Column("ERROR"),
        Column("WHERE"),
        Column("REDRIVEN"),
        Column("MESSAGE"),
    ]
    rows = [
        [
            each.id,
            formatting.ago(each.time),
            each.error,
            _where(names, each.transform_uid, each.line, each.column),
            each.redriven.outcome if each.redriven else "no",
            each.message,
        ]
        for each in letters
    ]
    run.out.table(columns, rows)


@command(app)
def summary(run: Run, flow: FlowArgument) -> None:
    """Count the dead letters by error and place."""
    found = run.flow(flow)
    groups = found.dead_letters.summary()
    if run.out.as_json:
        run.out.json(groups)
        return
    if not groups:
        print("There are no dead letters.")
        return
    names = _names(found)
    columns = [Column("ERROR"), Column("WHERE"), Column("COUNT", True), Column("LAST", True), Column("EXAMPLE")]
    rows = [
        [
            each.error,
            _where(names, each.transform_uid, each.line),
            f"{each.count:,}",
            formatting.ago(each.last),
            each.example or "",
        ]
        for each in groups
    ]
    run.out.table(columns, rows)
    if run.out.is_terminal:
        run.out.note(f"  headwater dead-letters list {flow} --error {groups[0].error}")
        run.out.note(f"  headwater dead-letters redrive {flow} --error {groups[0].error}")


@command(app)
def redrive(
    run: Run,
    flow: FlowArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Letters, also redriven ones.")] = None,
    error: ErrorOption = None,
    transform: TransformOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All letters that were not redriven yet.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    yes: YesOption = False,
) -> None:
    """Send dead letters through the running revision once more."""
    if not (ids or error or transform or everything):
        raise CommandError("Name letters by their ids, --error, --transform or --all.", USAGE)
    found = run.flow(flow)
    selection = {"ids": ids or None, "error": error, "transform": _uid(found, transform)}
    number = found.dead_letters.count(**selection)  # type: ignore[arg-type]  # the members have the right types
    if dry_run:
        run.out.json({"requested": number}) if run.out.as_json else print(f"{number:,} letters")
        return
    run.confirm(f"Send {number:,} letters through {found.name} again?", yes=yes)

    def report(state: "Redrive") -> None:
        if sys.stderr.isatty() and not run.out.as_json:
            done = state.delivered + state.dropped + state.failed
            print(f"\r{done:,} of {state.requested:,}", end="", file=sys.stderr)

    state = found.dead_letters.redrive(progress=report, **selection)  # type: ignore[arg-type]
    if run.out.as_json:
        run.out.json(state)
    else:
        print(f"{state.delivered:,} delivered, {state.dropped:,} dropped, {state.failed:,} failed again")
    if state.failed or state.state != "done":
        raise typer.Exit(FAILED)
