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


def with_progress_bar(records: Iterator[bytes], size: int, bytes_read: Callable[[], float]) -> Iterator[bytes]:
    """Yield the records; on a terminal, show a progress bar on standard error.

    Args:
        records: The records.
        size: The size of the records' files in bytes; 0 when the size is unknown.
        bytes_read: Returns how many bytes of the files have been read.
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
                progress.update(task, completed=bytes_read(), count=count)
        progress.update(task, completed=bytes_read(), count=count)


@contextmanager
def range_progress(first: int | None, last: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called with the last number that has been processed.

    On a terminal, the function updates a progress bar on standard error. Without a first or a last number, there is no
    progress bar.
    """
    console = Console(stderr=True)
    if first is None or last is None or not console.is_terminal:
        yield lambda _: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=last - first + 1)
        yield lambda number: progress.update(task, completed=number - first + 1)
