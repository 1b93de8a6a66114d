"""Commands for token prices."""

from typing import Annotated

import typer

from headwater_client.cli import formatting
from headwater_client.cli.command import Run, command, group
from headwater_client.cli.exit_codes import NOT_FOUND
from headwater_client.cli.output import Cell, Column

app = group("Token prices.")


@command(app)
def get(
    run: Run,
    chain: Annotated[str, typer.Argument(help="The chain of the tokens.")],
    tokens: Annotated[list[str], typer.Argument(metavar="TOKEN", help="Addresses of up to 200 tokens.")],
) -> None:
    """Show the prices of tokens in USD; exit 3 when none of them has one."""
    stats = run.hw.prices.stats([(token, chain) for token in tokens])
    if run.out.as_json:
        run.out.json(stats)
    else:
        columns = [
            Column("TOKEN"),
            *(Column(title, True) for title in ("USD", "1 H", "24 H", "LOW 24 H", "HIGH 24 H", "AGE")),
        ]
        rows: list[list[str | Cell]] = [
            [
                item.mint,
                f"{item.latest_price:.6g}",
                _percent(item.percent_change_1h),
                _percent(item.percent_change_24h),
                f"{item.low_24h:.6g}",
                f"{item.high_24h:.6g}",
                formatting.ago(item.timestamp),
            ]
            for item in stats.items
        ]
        if rows:
            run.out.table(columns, rows)
        for status in stats.statuses:
            if status.status != "ok":
                run.out.note(f"{status.token_address}: {status.status.replace('_', ' ')}")
    if not stats.items:
        raise typer.Exit(NOT_FOUND)


def _percent(value: float | None) -> Cell:
    if value is None:
        return Cell("")
    return Cell(f"{value:+.2f} %", "green" if value >= 0 else "red")


@app.callback()
def _prices() -> None:
    """A callback keeps `get` a subcommand, although it is the only one."""
