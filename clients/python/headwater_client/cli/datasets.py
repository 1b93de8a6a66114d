"""Commands for datasets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater_client.cli import formatting
from headwater_client.cli.command import Run, command, group
from headwater_client.cli.exit_codes import NOT_FOUND, CommandError
from headwater_client.cli.filters import ColumnOption, ValuesArgument
from headwater_client.cli.flows import YesOption
from headwater_client.cli.output import Column
from headwater_client.cli.values import FromOption, add_values, export_values, given_values

if TYPE_CHECKING:
    from headwater_client import Dataset

app = group("Datasets: named sets in which scripts look values up.")

DatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="Name or id of a dataset.")]


def _dataset(run: Run, reference: str) -> "Dataset":
    from headwater_client import NotFound

    found = run.hw.datasets.find(reference)
    if found is not None:
        return found
    try:
        return run.hw.datasets.get(reference)
    except NotFound:
        message = f"There is no dataset {reference!r}."
        raise CommandError(message, NOT_FOUND, "`headwater datasets list` shows your datasets.") from None


@command(app, "list")
def list_(run: Run) -> None:
    """List the datasets."""
    infos = [dataset.info for dataset in run.hw.datasets.list()]
    if run.out.as_json:
        run.out.json(infos)
    else:
        rows = [[info.name, info.id, f"{formatting.ago(info.created_at)} ago"] for info in infos]
        run.out.table([Column("NAME"), Column("ID"), Column("CREATED")], rows)


@command(app)
def create(run: Run, name: str) -> None:
    """Create an empty dataset."""
    info = run.hw.datasets.create(name).info
    _print(run, info, info.id)


@command(app)
def delete(run: Run, dataset: DatasetArgument, yes: YesOption = False) -> None:
    """Delete a dataset. Scripts that use it fail from then on."""
    found = _dataset(run, dataset)
    run.confirm(f"Delete the dataset {found.name}?", yes=yes)
    found.delete()
    _print(run, {"message": "deleted"}, "✓ deleted")


@command(app)
def add(
    run: Run,
    dataset: DatasetArgument,
    values: ValuesArgument = None,
    file: FromOption = None,
    column: ColumnOption = "",
) -> None:
    """Add values."""
    add_values(run, _dataset(run, dataset), given_values(values, file, column))


@command(app)
def remove(
    run: Run,
    dataset: DatasetArgument,
    values: ValuesArgument = None,
    file: FromOption = None,
    column: ColumnOption = "",
) -> None:
    """Remove values."""
    done = _dataset(run, dataset).remove(given_values(values, file, column))
    _print(
        run, {"removed": done.changed, "version": done.version}, f"✓ {done.changed:,} of {done.sent:,} values removed"
    )


@command(app)
def check(run: Run, dataset: DatasetArgument, value: str) -> None:
    """Say whether a value is in the dataset; exit 3 when it is not."""
    exists = _dataset(run, dataset).check(value)
    _print(run, {"value": value, "exists": exists}, "in the dataset" if exists else "not in the dataset")
    if not exists:
        raise typer.Exit(NOT_FOUND)


@command(app, "import")
def import_(
    run: Run,
    dataset: DatasetArgument,
    file: Annotated[
        Path, typer.Argument(help="CSV, or text with one value in each line.", exists=True, dir_okay=False)
    ],
    column: ColumnOption = "",
    skip: Annotated[int, typer.Option(min=0, help="Skip this many values, which an earlier run has stored.")] = 0,
) -> None:
    """Add the values of a file, in batches, with a progress bar."""
    add_values(run, _dataset(run, dataset), given_values(None, file, column), skip=skip)


@command(app)
def export(
    run: Run,
    dataset: DatasetArgument,
    file: Annotated[Path | None, typer.Argument(help="The file to write; by default standard output.")] = None,
) -> None:
    """Write all values, one in each line."""
    found = _dataset(run, dataset)
    export_values(run, found.values(), found.page(limit=1).total_count, file)


def _print(run: Run, document: Any, text: str) -> None:
    if run.out.as_json:
        run.out.json(document)
    else:
        print(text)
