"""Values of filters and datasets: from arguments and files, with progress, and into files."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater_client.cli.command import Run
from headwater_client.cli.exit_codes import INTERRUPTED, USAGE, CommandError
from headwater_client.files.values import DesiredValues, ReiterableValues

if TYPE_CHECKING:
    from headwater_client import Dataset, Filter, Upload
    from headwater_client.models.value_sets import FilterCount

FromOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="A file with the values: CSV, or text; - reads standard input.")
]
LINES_PER_WRITE: Final = 10_000
READ_BYTES: Final = 1 << 20
VALUES_PER_UPDATE: Final = 20_000
VALUES_TIMEOUT_S: Final = 600.0


def given_values(values: Sequence[str] | None, file: Path | None, column: str) -> Iterable[str]:
    """Return the values that the arguments name. Raises CommandError."""
    if (values is None or not list(values)) == (file is None):
        raise CommandError("Name either values or a --file with values.", USAGE)
    if file is None:
        return list(values or ())
    if str(file) == "-":
        return [text for line in sys.stdin if (text := line.strip())]
    if not file.is_file():
        raise CommandError(f"There is no file {file}.", USAGE)
    return ReiterableValues(DesiredValues("replace", str(file), path=file, column=column))


def add_values(run: Run, target: "Filter | Dataset", values: Iterable[str], *, skip: int | None = None) -> None:
    """Add values with a progress bar.

    After Ctrl-C or an error, print how to continue.

    Args:
        run: The run of the command.
        target: The filter or dataset.
        values: The values.
        skip: How many values are left out; None when the command has no option for it.
    """
    from headwater_client import HeadwaterError, Upload

    last = Upload()

    def report(state: "Upload") -> None:
        nonlocal last
        last = state
        advance(state.sent)

    with _progress(run, values, skip or 0) as advance:
        try:
            done = target.add(islice(iter(values), skip or 0, None), progress=report, timeout=VALUES_TIMEOUT_S)
        except (KeyboardInterrupt, HeadwaterError) as error:
            _explain(run, last, skip)
            if isinstance(error, KeyboardInterrupt):
                raise typer.Exit(INTERRUPTED) from None
            raise
    if run.out.as_json:
        run.out.json({"sent": done.sent, "added": done.changed, "version": done.version})
    else:
        print(f"✓ {done.changed:,} of {done.sent:,} values were new")


def _explain(run: Run, last: "Upload", skip: int | None) -> None:
    if skip is None:
        run.out.note("Run the command again: values that are stored already are ignored.")
    else:
        done = skip + last.complete
        run.out.note(f"The first {done:,} values are stored. Continue with the same command and `--skip {done}`.")


def replace_values(run: Run, target: "Filter", values: Iterable[str]) -> "FilterCount":
    """Replace all values with a progress bar."""
    with _progress(run, values, 0) as advance:
        return target.replace(_Observed(values, advance), timeout=VALUES_TIMEOUT_S)


class _Observed:
    """Values that report how many of them were iterated over."""

    def __init__(self, values: Iterable[str], advance: Callable[[int], None]) -> None:
        self._values = values
        self._advance = advance

    def __iter__(self) -> Iterator[str]:
        for number, value in enumerate(self._values, 1):
            if number % VALUES_PER_UPDATE == 0:
                self._advance(number)
            yield value


@contextmanager
def _progress(run: Run, values: Iterable[str], skip: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that gets the number of values that are sent.

    On a terminal, it moves a progress bar.
    """
    if run.out.as_json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total = _line_count(values.path) if isinstance(values, ReiterableValues) and values.path else None
    if isinstance(values, list):
        total = len(values)
    columns = (TextColumn("{task.completed:,} values"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None if total is None else total - skip)
        yield lambda sent: progress.update(task, completed=sent)


def _line_count(path: Path) -> int:
    """Return the number of lines of a file, which is about the number of values."""
    with path.open("rb") as file:
        return sum(data.count(b"\n") for data in iter(lambda: file.read(READ_BYTES), b""))


def export_values(run: Run, values: Iterable[str], total: int, file: Path | None) -> None:
    """Write values, one in each line, to a file or to standard output."""
    if file is None:
        _write_lines(values, sys.stdout)
        return
    temporary = file.with_name(f"{file.name}.part")
    with temporary.open("w", encoding="utf-8") as opened:
        _write_lines(values, opened)
    temporary.replace(file)
    run.out.note(f"✓ {total:,} values in {file}")


def _write_lines(values: Iterable[str], file: Any) -> None:
    rest = iter(values)
    while lines := list(islice(rest, LINES_PER_WRITE)):
        file.write("\n".join(lines) + "\n")
