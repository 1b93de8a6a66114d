"""Runs a worker in a Pod of Kubernetes, with an HTTP interface."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from headwater.app.stop_signals import stop_on_signals
from headwater.app.worker_server import worker_application
from headwater.app.wsgi_server import serve
from headwater.engine.http_channel import HttpChannel
from headwater.engine.restart_state import RestartState
from headwater.errors import SetupError

TERMINATION_LOG = Path("/dev/termination-log")
"""The file from which the kubelet takes the reason of a container's end."""


def run_in_pod(run: Callable[[HttpChannel], int], listen: str, token_file: Path, state_dir: Path) -> int:
    """Run a worker, and serve its HTTP interface. Returns the exit status.

    After the orchestrator has asked the worker to stop, the process idles until SIGTERM, so that the kubelet does not
    start it again. Raises SetupError when the address can't be used.

    Args:
        run: Runs the worker.
        listen: The address to listen on, `host:port`.
        token_file: The file with the token that the orchestrator sends.
        state_dir: The directory of the RestartState: whether an earlier container of this Pod has joined the consumer
            group, and whether it was asked to stop.
    """
    host, _, port = listen.rpartition(":")
    channel = HttpChannel(RestartState(state_dir), lambda: os.kill(os.getpid(), signal.SIGTERM))
    application = worker_application(channel, token_file.read_text("utf-8").strip())
    with ExitStack() as stack:
        try:
            stack.enter_context(serve(host, int(port), application))
        except OSError as error:
            raise SetupError(f"The worker can't listen on {listen} ({error.strerror or error}).") from error
        return _run_until_stopped(run, channel)


def _run_until_stopped(run: Callable[[HttpChannel], int], channel: HttpChannel) -> int:
    # An earlier container of this Pod may have been asked to stop.
    status = 0 if channel.is_stopping else run(channel)
    if not channel.is_stopping:
        if status and TERMINATION_LOG.exists():
            TERMINATION_LOG.write_text(channel.reason, "utf-8")
        return status
    terminated = stop_on_signals()
    channel.on_ended()
    terminated.wait()
    return 0
