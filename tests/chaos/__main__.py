"""`python -m tests.chaos NAME`: `make chaos`, `make soak` and the others of docs/reliability.md."""

import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tests.chaos.copy import Strikes, copy
from tests.chaos.load import KINDS
from tests.chaos.trial import Options, Report

app = typer.Typer(add_completion=False, help="Proofs of reliability; see docs/reliability.md.")
Seed = Annotated[int, typer.Option(help="Run number, of which all chance is made; 0 draws one.")]
Rate = Annotated[int, typer.Option(help="Records a second.")]
ALL = ("plain", "v8", "contains", "filter")


def drawn(seed: int) -> int:
    """The run number, said first: so that what happens can happen again."""
    run_number = seed or secrets.randbits(31)
    typer.echo(f"seed {run_number}")
    return run_number


def conclude(run: Callable[[Path], Report]) -> None:
    """Run in a directory that stays when the run fails, and print the report."""
    directory = Path(tempfile.mkdtemp(prefix="headwater-chaos-"))
    typer.echo(f"in {directory}; removed when the run passes", err=True)
    report = run(directory)
    typer.echo(report.text())
    if report.faults:
        raise typer.Exit(1)
    shutil.rmtree(directory)


@app.command("copy")
def run_copy(
    records: Annotated[int, typer.Option(help="The fewest records to feed.")] = 1_000_000,
    kills: Annotated[int, typer.Option(help="How many strikes.")] = 60,
    seed: Seed = 0,
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}; or all.")] = "v8",
    delivery: Annotated[str, typer.Option(help="at_least_once or exactly_once.")] = "at_least_once",
    rate: Rate = 2_000,
    longest_stop: Annotated[float, typer.Option(help="Seconds that a stop or a bad link lasts at most.")] = 60.0,
    network: Annotated[bool, typer.Option(help="Kafka and Valkey behind proxies, and not embedded.")] = True,
    only: Annotated[list[str] | None, typer.Option(help='A deed, like "worker KILL"; may be repeated.')] = None,
) -> None:
    """Nothing is lost, whatever is killed, stopped or cut off."""
    kinds = ALL if kind == "all" else (kind,)
    options = Options(drawn(seed), records, kinds, delivery, rate, network=network)
    strikes = Strikes(kills, longest_s=longest_stop, only=only or ())
    conclude(lambda directory: copy(directory, options, strikes, typer.echo))


@app.callback()
def main() -> None:
    """Choose one."""


if __name__ == "__main__":
    app()
