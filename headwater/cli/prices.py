"""Commands of the token prices."""

import typer

from headwater.cli.options import takes_settings
from headwater.settings import Settings

app = typer.Typer(help="Token prices: the worker that keeps them.", no_args_is_help=True)


@app.callback()
def _prices() -> None:
    """Makes `worker` a command of its own as long as it is the only one."""


def worker(settings: Settings) -> None:
    """Fold ticks into prices, against the addresses in settings; several workers share the work."""
    from headwater.app.prices import run
    from headwater.telemetry import configure_logging

    configure_logging(settings.log_level)
    run(settings)


app.command()(takes_settings()(worker))
