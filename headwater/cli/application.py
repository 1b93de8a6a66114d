"""The typer application."""

import typer

from headwater.cli import (
    abi,
    audit,
    backup,
    demo,
    docs,
    doctor,
    ingest,
    keys,
    owners,
    prices,
    processes,
    replay,
    settings,
    sweep,
)
from headwater.model.audit import CLI_ACTOR, set_actor

app = typer.Typer(
    name="headwater",
    help="Filters streams of blockchain records into Kafka topics of your own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _main() -> None:
    set_actor(CLI_ACTOR)


processes.register(app)
replay.register(app)
demo.register(app)
settings.register(app)
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
