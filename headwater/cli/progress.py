"""Progress bars, which are only shown on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

UPDATE_EVERY: Final = 1_000
"""The number of records between two updates of the progress bar."""


def with_progress_bar(records: Iterator[bytes], size: int, done: Callable[[], float]) -> Iterator[bytes]:
    """Yield the records; on a terminal, show a progress bar on standard error.

    `done` returns how many of the `size` bytes have been read.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from records
        return
    columns = (TextColumn("{task.fields[count]:,} records"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=size or None, count=0)
        count = 0
        for count, record in enumerate(records, 1):
            yield record
            if count % UPDATE_EVERY == 0:
                progress.update(task, completed=done(), count=count)
        progress.update(task, completed=done(), count=count)


@contextmanager
def range_progress(first: int | None, last: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called with the number reached.

    For a range on a terminal, it updates a progress bar on standard error.
    """
    console = Console(stderr=True)
    if first is None or last is None or not console.is_terminal:
        yield lambda _: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=last - first + 1)
        yield lambda number: progress.update(task, completed=number - first + 1)
