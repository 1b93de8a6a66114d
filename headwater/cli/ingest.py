"""Commands that feed streams from chain nodes."""

from typing import Annotated

import typer

from headwater.cli.options import takes_settings
from headwater.settings import Settings

app = typer.Typer(help="Feed streams from chain nodes; each ingest goes on where it stopped.", no_args_is_help=True)

KAFKA = ("data_dir", "log_level", "kafka_bootstrap_servers", "kafka_security_protocol", "kafka_sasl_mechanism",
         "kafka_username", "kafka_password", "kafka_ca_file", "kafka_replication", "stream_bindings")  # fmt: skip


def run(settings: Settings, name: Annotated[str, typer.Argument(help="A name in the file of --ingests.")]) -> None:
    """Run one ingest of the file in settings, as `headwater up` does."""
    from headwater.app.home import Home
    from headwater.app.ingest import run_ingest
    from headwater.app.ingests import load_ingests
    from headwater.errors import SetupError
    from headwater.telemetry import configure_logging

    configure_logging(settings.log_level)
    known = load_ingests(settings.ingests)
    if name not in known:
        raise SetupError(f"There is no ingest {name}. The file of --ingests has: {', '.join(known) or 'none'}.")
    options, open_feed = known[name]
    run_ingest(settings, options, open_feed(options, Home(settings.data_dir)))


app.command()(takes_settings(*KAFKA, "ingests")(run))


@app.callback()
def _ingest() -> None:
    """Makes each command one of its own, however few there are."""
