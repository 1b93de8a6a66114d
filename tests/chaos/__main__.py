"""The command line of the reliability tests, `python -m tests.chaos NAME`.

docs/reliability.md describes each test.
"""

import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from headwater.logging_setup import configure_logging
from tests.chaos import soak
from tests.chaos.attack import AttackReport, attack
from tests.chaos.copy_under_faults import StrikePlan, copy
from tests.chaos.elastic import MAX_WORKERS, ElasticPhases, elastic
from tests.chaos.load import KINDS
from tests.chaos.neighbours import NeighboursReport, neighbours
from tests.chaos.rolling import RollingOptions, RollingReport, rolling
from tests.chaos.run import RunOptions, RunReport
from tests.chaos.single_faults import busy, loops, outage
from tests.chaos.storms import StormOptions, StormReport, storms

app = typer.Typer(add_completion=False, help="Reliability tests; see docs/reliability.md.")
Seed = Annotated[int, typer.Option(help="Seed of all random choices; 0 draws one.")]
Rate = Annotated[int, typer.Option(help="Records per second.")]
DEFAULTS = {"kafka": (1_000_000, 2_000), "pubsub": (20_000, 30)}
"""Number of records and rate by source. The fake Pub/Sub server delivers only 40 to 100 messages per second."""
ALL_KINDS = ("plain", "v8", "contains", "filter")


def seed_or_random(seed: int) -> int:
    """Return the seed, or a random one for 0. Print it first, so that the run can be repeated."""
    run_number = seed or secrets.randbits(31)
    typer.echo(f"seed {run_number}")
    return run_number


def conclude(run: Callable[[Path], RunReport | AttackReport | NeighboursReport | StormReport | RollingReport]) -> None:
    """Run a test in a temporary directory and print the report.

    Keep the directory if the run fails.
    """
    directory = Path(tempfile.mkdtemp(prefix="headwater-chaos-"))
    typer.echo(f"running in {directory}, which is removed if the run passes", err=True)
    report = run(directory)
    typer.echo(report.text())
    if not report.passed:
        raise typer.Exit(1)
    shutil.rmtree(directory)


@app.command("copy")
def run_copy(
    records: Annotated[
        int, typer.Option(help="The least number of records; 0 means 1,000,000, or 20,000 on Pub/Sub.")
    ] = 0,
    kills: Annotated[int, typer.Option(help="The number of strikes.")] = 60,
    seed: Seed = 0,
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}; or all.")] = "v8",
    delivery: Annotated[str, typer.Option(help="at_least_once or exactly_once.")] = "at_least_once",
    rate: Annotated[int, typer.Option(help="Records per second; 0 means 2,000, or 30 on Pub/Sub.")] = 0,
    source: Annotated[str, typer.Option(help="Where the source stream is: kafka or pubsub.")] = "kafka",
    longest_stop: Annotated[
        float, typer.Option(help="The longest time of a stopped process or an impaired link, in seconds.")
    ] = 60.0,
    network: Annotated[bool, typer.Option(help="Run Kafka and Valkey outside of Headwater, behind proxies.")] = True,
    only: Annotated[
        list[str] | None,
        typer.Option(help='Use only this action, for example "worker KILL"; can be given several times.'),
    ] = None,
) -> None:
    """Check that faults cause no loss of outputs.

    Processes are killed and stopped, and network links are impaired.
    """
    kinds = ALL_KINDS if kind == "all" else (kind,)
    default_records, default_rate = DEFAULTS[source]
    options = RunOptions(
        seed_or_random(seed),
        records or default_records,
        kinds,
        delivery,
        rate or default_rate,
        network=network,
        source=source,
    )
    strikes = StrikePlan(kills, longest_s=longest_stop, only=only or ())
    conclude(lambda directory: copy(directory, options, strikes, typer.echo))


@app.command("busy")
def run_busy(
    records: Annotated[int, typer.Option(help="The least number of records.")] = 1_000_000,
    seed: Seed = 0,
    rate: Rate = 1_000,
) -> None:
    """Check that no record becomes a dead letter on a busy machine.

    V8 is stopped every two seconds.
    """
    options = RunOptions(seed_or_random(seed), records, ["busy"], rate=rate, poison_every=0, network=False)
    conclude(lambda directory: busy(directory, options))


@app.command("loops")
def run_loops(minutes: Annotated[float, typer.Option()] = 5.0, seed: Seed = 0, rate: Rate = 1_000) -> None:
    """Check that endless loops in one of 1,000 records delay other records by seconds at most."""
    options = RunOptions(
        seed_or_random(seed), int(minutes * 60 * rate), rate=rate, poison_every=1_000, poisons=["loop"], network=False
    )
    conclude(lambda directory: loops(directory, options))


@app.command("outage")
def run_outage(
    seconds: Annotated[float, typer.Option(help="How long Valkey is unavailable.")] = 60.0,
    silent: Annotated[bool, typer.Option(help="Connections hang, and are not refused.")] = False,
    seed: Seed = 0,
    rate: Rate = 500,
) -> None:
    """Check that only pipelines with lookups wait while Valkey is unavailable."""
    options = RunOptions(seed_or_random(seed), 0, ALL_KINDS, rate=rate)
    conclude(lambda directory: outage(directory, options, seconds, silent=silent))


@app.command("soak")
def run_soak(
    hours: Annotated[float, typer.Option(help="The length of the run.")] = 2.0, seed: Seed = 0, rate: Rate = 500
) -> None:
    """Check that no process grows in hours of steady load and script changes."""
    options = RunOptions(seed_or_random(seed), 0, soak.KINDS, rate=rate, network=False, reread=False)
    conclude(lambda directory: soak.soak(directory, options, soak.Pace(hours)))


@app.command("attack")
def run_attack(
    minutes: Annotated[float, typer.Option(help="How long the attack lasts.")] = 20.0,
    scale: Annotated[
        float, typer.Option(help="Scale of the attack; 1 means 10,000 slow connections and 1 GB of headers.")
    ] = 1.0,
) -> None:
    """Check that a client without an API key does no harm.

    It neither delays a user's requests nor makes a process grow.
    """
    conclude(lambda directory: attack(directory, minutes, scale))


@app.command("neighbours")
def run_neighbours() -> None:
    """Check that an owner who has reached all quotas does not delay another owner's requests."""
    conclude(neighbours)


@app.command("storms")
def run_storms(
    strikes: Annotated[int, typer.Option(help="The number of strikes.")] = 100, seed: Seed = 0, rate: Rate = 1_000
) -> None:
    """Check that no partition stalls while the broker fails and group members change.

    The broker is killed, stopped and fenced.
    """
    configure_logging("info")
    options = StormOptions(seed_or_random(seed), strikes, rate)
    conclude(lambda directory: storms(directory, options, typer.echo))


@app.command("rolling")
def run_rolling(
    rounds: Annotated[int, typer.Option(help="How many times each broker is restarted.")] = 1,
    seed: Seed = 0,
    rate: Rate = 10_000,
) -> None:
    """Check that a rolling restart of three brokers under load loses nothing.

    The output must not pause either.
    """
    options = RollingOptions(seed_or_random(seed), rate, rounds)
    conclude(lambda directory: rolling(directory, options, typer.echo))


@app.command("elastic")
def run_elastic(
    low: Annotated[int, typer.Option(help="Records per second before and after the high load.")] = 1_000,
    high: Annotated[int, typer.Option(help="Records per second of the high load.")] = 30_000,
    high_s: Annotated[float, typer.Option(help="How long the high load lasts.")] = 180.0,
    edge_minutes: Annotated[
        float, typer.Option(help="How long the load is at the edge between one worker and two.")
    ] = 30.0,
    kind: Annotated[str, typer.Option(help="The pipeline: light, with 0.05 ms of CPU per record, or busy, 0.2 ms.")] = (
        "light"
    ),
    delivery: Annotated[str, typer.Option(help="at_least_once or exactly_once.")] = "at_least_once",
    seed: Seed = 0,
) -> None:
    """Check that the number of workers follows the load, without loss, repeats or flapping."""
    options = RunOptions(
        seed_or_random(seed),
        0,
        [kind],
        delivery,
        rate=low,
        poison_every=0,
        parallelism={"min": 1, "max": MAX_WORKERS},
        network=False,
        reread=False,
    )
    phases = ElasticPhases(low, high, high_s, edge_minutes * 60)
    conclude(lambda directory: elastic(directory, options, phases, typer.echo))


@app.callback()
def main() -> None:
    """Run one of the reliability tests.

    SIGTERM ends a run as Ctrl-C does: every process that the run has started is stopped.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


if __name__ == "__main__":
    app()
