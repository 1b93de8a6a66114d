"""Commands for the values of filters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater_client.cli.command import Run, command, group
from headwater_client.cli.exit_codes import NOT_FOUND
from headwater_client.cli.flows import FlowArgument, YesOption
from headwater_client.cli.values import FromOption, add_values, export_values, given_values, replace_values

if TYPE_CHECKING:
    from headwater_client import Filter

app = group("Values of set filters, which change at once and without a deploy.")

FilterArgument = Annotated[str, typer.Argument(metavar="FILTER", help="Name or uid of the filter.")]
ValuesArgument = Annotated[list[str] | None, typer.Argument(metavar="VALUE", help="Values.")]
ColumnOption = Annotated[str, typer.Option(help="The column, when the file is CSV.")]


def _filter(run: Run, flow: str, name: str) -> "Filter":
    return run.flow(flow).filters[name]


@command(app)
def add(
    run: Run,
    flow: FlowArgument,
    filter_: FilterArgument,
    values: ValuesArgument = None,
    file: FromOption = None,
    column: ColumnOption = "",
) -> None:
    """Add values. Those that are in the filter already are ignored."""
    add_values(run, _filter(run, flow, filter_), given_values(values, file, column))


@command(app)
def remove(
    run: Run,
    flow: FlowArgument,
    filter_: FilterArgument,
    values: ValuesArgument = None,
    file: FromOption = None,
    column: ColumnOption = "",
) -> None:
    """Remove values. Those that are not in the filter are ignored."""
    done = _filter(run, flow, filter_).remove(given_values(values, file, column))
    _print(
        run, {"removed": done.changed, "version": done.version}, f"✓ {done.changed:,} of {done.sent:,} values removed"
    )


@command(app)
def replace(
    run: Run,
    flow: FlowArgument,
    filter_: FilterArgument,
    values: ValuesArgument = None,
    file: FromOption = None,
    column: ColumnOption = "",
    yes: YesOption = False,
) -> None:
    """Replace all values at once, in one request."""
    found, wanted = _filter(run, flow, filter_), given_values(values, file, column)
    run.confirm(f"Write these values in place of all {found.count().count:,}?", yes=yes)
    done = replace_values(run, found, wanted)
    _print(run, done, f"✓ {done.count:,} values")


@command(app)
def check(run: Run, flow: FlowArgument, filter_: FilterArgument, value: str) -> None:
    """Say whether a value is in the filter; exit 3 when it is not."""
    is_member = _filter(run, flow, filter_).check(value)
    _print(run, {"value": value, "is_member": is_member}, "in the filter" if is_member else "not in the filter")
    if not is_member:
        raise typer.Exit(NOT_FOUND)


@command(app)
def count(run: Run, flow: FlowArgument, filter_: FilterArgument) -> None:
    """Count the values."""
    found = _filter(run, flow, filter_).count()
    _print(run, found, f"{found.count}")


@command(app, "import")
def import_(
    run: Run,
    flow: FlowArgument,
    filter_: FilterArgument,
    file: Annotated[
        Path, typer.Argument(help="CSV, or text with one value in each line.", exists=True, dir_okay=False)
    ],
    column: ColumnOption = "",
    skip: Annotated[int, typer.Option(min=0, help="Skip this many values, which an earlier run has stored.")] = 0,
) -> None:
    """Add the values of a file, in batches, with a progress bar."""
    add_values(run, _filter(run, flow, filter_), given_values(None, file, column), skip=skip)


@command(app)
def export(
    run: Run,
    flow: FlowArgument,
    filter_: FilterArgument,
    file: Annotated[Path | None, typer.Argument(help="The file to write; by default standard output.")] = None,
) -> None:
    """Write all values, one in each line."""
    found = _filter(run, flow, filter_)
    export_values(run, found.values(), found.count().count, file)


def _print(run: Run, document: Any, text: str) -> None:
    if run.out.as_json:
        run.out.json(document)
    else:
        print(text)
