"""The command line: `app` is all of it; each module holds the commands of one kind.

Commands import what they compose when they run: `headwater --help` and a worker's start stay fast.
"""

import typer

from headwater.cli import abi, audit, backup, docs, doctor, ingest, keys, owners, parts, prices, sweep, tools
from headwater.model.audit import CLI, act_as

app = typer.Typer(
    name="headwater",
    help="Firehoses of blockchain records in, just the records a user wants out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _main() -> None:
    act_as(CLI)


parts.register(app)
tools.register(app)
audit.register(app)
backup.register(app)
doctor.register(app)
sweep.register(app)
docs.register(app)
app.add_typer(keys.app, name="keys")
app.add_typer(owners.app, name="owners")
app.add_typer(ingest.app, name="ingest")
app.add_typer(abi.app, name="abi")
app.add_typer(prices.app, name="prices")
app.add_typer(prices.tokens_app, name="tokens")
