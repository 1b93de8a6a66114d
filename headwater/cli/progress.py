"""A progress bar, where someone can see it."""

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

EVERY: Final = 1_000
"""Records between two looks at how far they are."""


def shown(records: Iterator[bytes], size: int, done: Callable[[], float]) -> Iterator[bytes]:
    """The same records; on a terminal, a bar on standard error tells how many, and `done` of `size`."""
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
            if count % EVERY == 0:
                progress.update(task, completed=done(), count=count)
        progress.update(task, completed=done(), count=count)


@contextmanager
def range_shown(first: int | None, last: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """Gives what takes the number that is reached; on a terminal, a bar on standard error tells it for a range."""
    console = Console(stderr=True)
    if first is None or last is None or not console.is_terminal:
        yield lambda _: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=last - first + 1)
        yield lambda number: progress.update(task, completed=number - first + 1)
