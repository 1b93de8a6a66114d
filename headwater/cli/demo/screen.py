"""Shows the demo with a live table on a terminal, otherwise with plain lines."""

import statistics
from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

SHOWN_ROWS = 12
PLAIN_LINES = 5


class Screen:
    """Shows the steps of the demo and the records that it reads.

    A terminal shows the last records in a table. Other outputs show the first records of each step.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: deque[tuple[str, str]] = deque(maxlen=SHOWN_ROWS)
        self._count = 0
        self._shown_in_step = 0
        self._only_with = ""
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str, only_with: str = "") -> None:
        """Print a step of the demo.

        Until the next step, only records that contain `only_with` are printed, unless there is a live table.
        """
        self._shown_in_step = 0
        self._only_with = only_with
        self._console.print(text, highlight=False, soft_wrap=True)

    def show_record(self, latency_ms: float, summary: str, record: str) -> None:
        """Show the latency and the summary of a record. `record` is the whole record as text."""
        self._count += 1
        self._rows.append((f"{latency_ms:.0f} ms", summary))
        if self._live is not None:
            self._live.update(self._table())
        elif self._shown_in_step < PLAIN_LINES and self._only_with in record:
            self._shown_in_step += 1
            self._console.print(f"    {latency_ms:6.0f} ms  {summary}", highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(title=f"{self._count:,} records read with the returned credentials")
        table.add_column("end to end", justify="right")
        table.add_column("record")
        for row in self._rows:
            table.add_row(*row)
        return table


def percentiles(values: list[float]) -> str:
    """Return p50, p99 and the maximum of latencies in ms, as text."""
    if len(values) < 2:
        return "too few records"
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return f"p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms, max {max(values):.0f} ms"
