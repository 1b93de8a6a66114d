"""Commands that run Headwater: everything at once, or a single process."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import exit_with_error, takes_settings
from headwater.errors import SetupError
from headwater.settings import Settings


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(takes_settings()(up))
    app.command()(takes_settings()(api))
    app.command()(takes_settings()(controller))
    app.command()(worker)
    app.command("fetch")(takes_settings("cache_dir", "kafka_java")(prefetch_kafka))


def up(settings: Settings) -> None:
    """Start everything on this machine.

    SIGINT or SIGTERM stops it, and the next start resumes all deployments.
    """
    from headwater.app.up import up as run
    from headwater.logging_setup import configure_logging

    configure_logging(settings.log_level)
    run(settings, lambda line: print(line, flush=True))


def api(
    settings: Settings,
    fd: Annotated[int | None, typer.Option(help="Serve on this inherited listening socket.", hidden=True)] = None,
) -> None:
    """Serve the HTTP API. The settings name the database, Kafka, and Valkey or Redis."""
    from headwater.app.build_api import serve
    from headwater.logging_setup import configure_logging

    configure_logging(settings.log_level)
    serve(settings, fd)


def controller(settings: Settings) -> None:
    """Run the controller, which starts and stops the workers of deployments.

    The settings name the database, Kafka, and Valkey or Redis.
    """
    from headwater.app.build_controller import run
    from headwater.logging_setup import configure_logging

    configure_logging(settings.log_level)
    run(settings)


def worker(
    spec: Annotated[Path, typer.Option(help="The worker's spec file, which the controller writes.")],
    slot: Annotated[int, typer.Option(min=0, help="Slot of this worker in its worker set.")] = 0,
) -> None:
    """Run one worker of a deployment."""
    from headwater.app.build_worker import run_file
    from headwater.engine.orchestrator_channel import NoOrchestrator

    try:
        sys.exit(run_file(spec, slot, NoOrchestrator()))
    except SetupError as error:
        exit_with_error(error.detail)


def prefetch_kafka(settings: Settings) -> None:
    """Download the embedded Kafka into the cache.

    `headwater up` then starts fast and without a network.
    """
    from headwater.brokers.embedded import prefetch

    prefetch(settings.cache_dir.expanduser(), settings.kafka_java)
