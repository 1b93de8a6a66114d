"""`python -m tests.chaos NAME`: `make chaos`, `make soak` and the others of docs/reliability.md."""

import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from headwater.logging_setup import configure_logging
from tests.chaos import soak
from tests.chaos.attack import Attack, attack
from tests.chaos.copies import Strikes, copy
from tests.chaos.load import KINDS
from tests.chaos.neighbours import Neighbours, neighbours
from tests.chaos.proofs import away, busy, loops
from tests.chaos.rolling import RollingOptions, RollingReport, rolling
from tests.chaos.storms import StormOptions, StormReport, storms
from tests.chaos.trial import Options, Report

app = typer.Typer(add_completion=False, help="Proofs of reliability; see docs/reliability.md.")
Seed = Annotated[int, typer.Option(help="Run number, of which all chance is made; 0 draws one.")]
Rate = Annotated[int, typer.Option(help="Records a second.")]
USUAL = {"kafka": (1_000_000, 2_000), "pubsub": (20_000, 30)}
"""Records and rate. The fake server of Pub/Sub gives 40 to 100 messages a second."""
ALL = ("plain", "v8", "contains", "filter")


def drawn(seed: int) -> int:
    """The run number, said first: so that what happens can happen again."""
    run_number = seed or secrets.randbits(31)
    typer.echo(f"seed {run_number}")
    return run_number


def conclude(run: Callable[[Path], Report | Attack | Neighbours | StormReport | RollingReport]) -> None:
    """Run in a directory that stays when the run fails, and print the report."""
    directory = Path(tempfile.mkdtemp(prefix="headwater-chaos-"))
    typer.echo(f"in {directory}; removed when the run passes", err=True)
    report = run(directory)
    typer.echo(report.text())
    if not report.passed:
        raise typer.Exit(1)
    shutil.rmtree(directory)


@app.command("copy")
def run_copy(
    records: Annotated[int, typer.Option(help="The fewest records to feed; 0: 1,000,000, on Pub/Sub 20,000.")] = 0,
    kills: Annotated[int, typer.Option(help="How many strikes.")] = 60,
    seed: Seed = 0,
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}; or all.")] = "v8",
    delivery: Annotated[str, typer.Option(help="at_least_once or exactly_once.")] = "at_least_once",
    rate: Annotated[int, typer.Option(help="Records a second; 0: 2,000, on Pub/Sub 30.")] = 0,
    source: Annotated[str, typer.Option(help="Where the stream is: kafka or pubsub.")] = "kafka",
    longest_stop: Annotated[float, typer.Option(help="Seconds that a stop or a bad link lasts at most.")] = 60.0,
    network: Annotated[bool, typer.Option(help="Kafka and Valkey behind proxies, and not embedded.")] = True,
    only: Annotated[list[str] | None, typer.Option(help='A deed, like "worker KILL"; may be repeated.')] = None,
) -> None:
    """Nothing is lost, whatever is killed, stopped or cut off."""
    kinds = ALL if kind == "all" else (kind,)
    usual_records, usual_rate = USUAL[source]
    options = Options(
        drawn(seed), records or usual_records, kinds, delivery, rate or usual_rate, network=network, source=source
    )
    strikes = Strikes(kills, longest_s=longest_stop, only=only or ())
    conclude(lambda directory: copy(directory, options, strikes, typer.echo))


@app.command("busy")
def run_busy(
    records: Annotated[int, typer.Option(help="The fewest records to feed.")] = 1_000_000,
    seed: Seed = 0,
    rate: Rate = 1_000,
) -> None:
    """Records of 0.2 ms on a machine that is full, V8 stopped every two seconds: no record is blamed."""
    options = Options(drawn(seed), records, ["busy"], rate=rate, poison_every=0, network=False)
    conclude(lambda directory: busy(directory, options))


@app.command("loops")
def run_loops(minutes: Annotated[float, typer.Option()] = 5.0, seed: Seed = 0, rate: Rate = 1_000) -> None:
    """One record in 1,000 loops for ever: the others come, late by seconds at most."""
    options = Options(
        drawn(seed), int(minutes * 60 * rate), rate=rate, poison_every=1_000, poisons=["loop"], network=False
    )
    conclude(lambda directory: loops(directory, options))


@app.command("away")
def run_away(
    seconds: Annotated[float, typer.Option(help="How long the set store is away.")] = 60.0,
    silent: Annotated[bool, typer.Option(help="It says nothing, and does not refuse connections.")] = False,
    seed: Seed = 0,
    rate: Rate = 500,
) -> None:
    """The set store is away: who asks it waits and goes on, the others don't notice."""
    options = Options(drawn(seed), 0, ALL, rate=rate)
    conclude(lambda directory: away(directory, options, seconds, silent=silent))


@app.command("soak")
def run_soak(hours: Annotated[float, typer.Option(help="How long.")] = 2.0, seed: Seed = 0, rate: Rate = 500) -> None:
    """Everything runs for hours under steady load and change: nothing grows."""
    options = Options(drawn(seed), 0, soak.KINDS, rate=rate, network=False, reread=False)
    conclude(lambda directory: soak.soak(directory, options, soak.Pace(hours)))


@app.command("attack")
def run_attack(
    minutes: Annotated[float, typer.Option(help="How long the attack lasts.")] = 20.0,
    scale: Annotated[float, typer.Option(help="1 is 10,000 slow connections and 1 GB of headers.")] = 1.0,
) -> None:
    """Somebody without a key floods the API: a user beside does not notice, and no process grows."""
    conclude(lambda directory: attack(directory, minutes, scale))


@app.command("neighbours")
def run_neighbours() -> None:
    """One owner is at all quotas and goes on trying: the other's deploys and lists do not notice it."""
    conclude(neighbours)


@app.command("storms")
def run_storms(
    strikes: Annotated[int, typer.Option(help="How many strikes.")] = 100, seed: Seed = 0, rate: Rate = 1_000
) -> None:
    """A broker is killed, ended, stopped and fenced while members of a group come and go: no partition stands still."""
    configure_logging("info")
    options = StormOptions(drawn(seed), strikes, rate)
    conclude(lambda directory: storms(directory, options, typer.echo))


@app.command("rolling")
def run_rolling(
    rounds: Annotated[int, typer.Option(help="How often each broker is restarted.")] = 1,
    seed: Seed = 0,
    rate: Rate = 10_000,
) -> None:
    """Three brokers are restarted one after the other under load: nothing is lost, and the output does not pause."""
    options = RollingOptions(drawn(seed), rate, rounds)
    conclude(lambda directory: rolling(directory, options, typer.echo))


@app.callback()
def main() -> None:
    """Choose one."""


if __name__ == "__main__":
    app()
