"""`python -m tests.chaos copy` and `python -m tests.chaos soak`."""

import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tests.chaos import copy

app = typer.Typer(add_completion=False, help="Proofs of reliability; see docs/reliability.md.")


@app.command("copy")
def run_copy(
    records: Annotated[int, typer.Option(help="The fewest records to feed.")] = 1_000_000,
    kills: Annotated[int, typer.Option(help="How many strikes.")] = 60,
    seed: Annotated[int, typer.Option(help="Run number; 0 draws one.")] = 0,
    kind: Annotated[str, typer.Option(help="plain, v8, contains or filter.")] = "v8",
    delivery: Annotated[str, typer.Option(help="at_least_once or exactly_once.")] = "at_least_once",
    rate: Annotated[int, typer.Option(help="Records a second.")] = 2_000,
    longest_stop: Annotated[float, typer.Option(help="Seconds that a stop or bad link lasts at most.")] = 60.0,
    network: Annotated[bool, typer.Option(help="Kafka and Valkey behind proxies, and not embedded.")] = True,
    only: Annotated[list[str] | None, typer.Option(help='A deed, for example "worker KILL"; may be repeated.')] = None,
) -> None:
    """The copy test: nothing is lost, whatever is killed, stopped or cut off."""
    run_number = seed or secrets.randbits(31)
    typer.echo(f"seed {run_number}")
    options = copy.Options(
        run_number,
        records,
        kills,
        kind,
        delivery,
        rate,
        longest_stop_s=longest_stop,
        network=network,
        only=tuple(only or ()),
    )
    directory = Path(tempfile.mkdtemp(prefix="headwater-chaos-"))
    typer.echo(f"in {directory}; it is removed when the run passes", err=True)
    report = copy.run(directory, options)
    typer.echo(report.text())
    if report.faults:
        raise typer.Exit(1)
    shutil.rmtree(directory)


@app.callback()
def main() -> None:
    """Choose one."""


if __name__ == "__main__":
    app()
