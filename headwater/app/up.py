"""Implements `headwater up`: runs everything on this machine as child processes."""

import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial

import httpx2
import structlog

from headwater.app.api_url import api_url, local_api_url
from headwater.app.data_directory import DataDirectory, require_platform
from headwater.app.database import provide_local_key
from headwater.app.endpoints import Endpoints
from headwater.app.environments import API, CONTROLLER, INGEST, PRICES, child_environment, metrics_environment
from headwater.app.ingest_kinds import load_ingests, variables_of
from headwater.app.sign_in import create_sign_in_link
from headwater.app.stop_signals import stop_on_signals
from headwater.app.stream_bindings import load_bindings
from headwater.children import Child, spawn
from headwater.errors import HeadwaterError, SetupError
from headwater.settings import Settings
from headwater.supervisor import SupervisedProcess, Supervisor

log = structlog.get_logger(__name__)

TICK_S = 0.1
KAFKA_READY_WITHIN_S = 60.0
VALKEY_READY_WITHIN_S = 30.0
SERVING_WITHIN_S = 60.0
LISTEN_BACKLOG = 1024
SETUP_ERROR_STATUS = 2
"""The exit status of a command that a HeadwaterError has ended (cli/options.py), most often because of its settings."""
LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")


def up(settings: Settings, announce: Callable[[str], None]) -> None:
    """Run until SIGINT or SIGTERM.

    `announce` is called with each line of the greeting. Raises SetupError.
    """
    require_platform()
    data_directory = DataDirectory(settings.data_dir)
    if not settings.data_dir.exists():
        require_free_port(settings.host, settings.port)
    data_directory.create()
    stop = stop_on_signals()
    endpoints = Endpoints(settings, data_directory)
    endpoints.require_kafka_settings()  # invalid settings must end `up`, not only the API
    # A thread of this process syncs Valkey's append-only file to disk. It must run until Valkey has ended.
    valkey_sync = endpoints.embedded_valkey().syncing_append_only_file() if endpoints.embeds_valkey else nullcontext()
    with (
        data_directory.locked("up"),
        listening(settings.host, settings.port) as listener,
        valkey_sync,
        supervised() as supervisor,
    ):
        provide_local_key(endpoints)
        start_services(supervisor, endpoints, listener)
        if wait_until_serving(settings, supervisor, stop):
            for line in greeting(settings, data_directory):
                announce(line)
            announce(f"Sign in within 60 s: {_sign_in_link(settings)}")
        while not stop.wait(TICK_S):
            supervisor.restart_ended()


def require_free_port(host: str, port: int) -> None:
    """Raise SetupError when another process listens on a port.

    So a start that fails for this reason leaves no new data directory behind.
    """
    with listening(host, port):
        pass


@contextmanager
def supervised() -> Iterator[Supervisor]:
    """Yield a supervisor, which stops its processes in order at the end, even after an error."""
    supervisor = Supervisor()
    try:
        yield supervisor
    finally:
        supervisor.stop()


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open the API's listening socket.

    This process holds the socket, so that the port stays open when the API restarts.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as error:
        raise SetupError(
            f"The API can't listen on {host}:{port} ({error.strerror or error}). "
            "Stop the process that uses the port, or choose another port with --port."
        ) from error
    with listener:
        yield listener


def start_services(supervisor: Supervisor, endpoints: Endpoints, listener: socket.socket) -> None:
    """Start the embedded services in parallel, and then the processes of Headwater.

    Headwater's processes are the controller, the prices worker, the ingests and the API. Raises SetupError when an
    embedded service does not start.
    """
    with ThreadPoolExecutor(2) as pool:
        for started in [pool.submit(start) for start in _embedded_services(supervisor, endpoints)]:
            started.result()
    settings, environment = endpoints.settings, partial(child_environment, endpoints.settings, endpoints.data_directory)
    bindings = load_bindings(settings)
    controller, prices = environment(CONTROLLER, bindings), environment(PRICES)
    supervisor.start(SupervisedProcess("controller", lambda: _spawn(controller, "controller"), grace_s=20.0))
    supervisor.start(SupervisedProcess("prices", lambda: _spawn(prices, "prices", "worker"), grace_s=20.0))
    for name in load_ingests(settings.ingests):
        variables = environment(INGEST.with_variables(*variables_of(settings.ingests, name)))
        start = partial(_spawn, variables, "ingest", "run", name)
        supervisor.start(SupervisedProcess(f"ingest {name}", start, grace_s=20.0, essential=False))
    api = environment(API, bindings) | metrics_environment(endpoints.data_directory.create_metrics_dir())
    for number in range(settings.api_processes):
        supervisor.start(SupervisedProcess(f"api-{number}", lambda: _spawn_api(api, listener)))


def _embedded_services(supervisor: Supervisor, endpoints: Endpoints) -> list[Callable[[], None]]:
    """Return for each embedded service a function that starts it and waits until it is ready."""
    starts: list[Callable[[], None]] = []
    if endpoints.embeds_valkey:
        valkey = endpoints.embedded_valkey()
        starts.append(
            lambda: valkey.wait_ready(
                supervisor.start(SupervisedProcess("valkey", valkey.start)), VALKEY_READY_WITHIN_S
            )
        )
    if endpoints.embeds_kafka:
        kafka = endpoints.embedded_kafka()

        def start_kafka() -> None:
            kafka.prepare()
            service = SupervisedProcess("kafka", kafka.start, grace_s=30.0)
            kafka.wait_ready(supervisor.start(service), KAFKA_READY_WITHIN_S)

        starts.append(start_kafka)
    return starts


def _spawn(environment: dict[str, str], *arguments: str, pass_fds: tuple[int, ...] = ()) -> Child:
    """Start a `headwater` command."""
    return spawn([sys.executable, "-m", "headwater", *arguments], env=environment, pass_fds=pass_fds)


def _spawn_api(environment: dict[str, str], listener: socket.socket) -> Child:
    return _spawn(environment, "api", "--fd", str(listener.fileno()), pass_fds=(listener.fileno(),))


def wait_until_serving(settings: Settings, supervisor: Supervisor, stop: threading.Event) -> bool:
    """Wait until /readyz succeeds.

    Returns False when a signal stops this process before that. Raises SetupError when the API is not ready within
    SERVING_WITHIN_S seconds; the message contains the last response.
    """
    deadline, last_response = time.monotonic() + SERVING_WITHIN_S, "no response"
    with httpx2.Client(base_url=local_api_url(settings), timeout=5) as client:
        while not stop.wait(TICK_S):
            supervisor.restart_ended()
            if names := supervisor.essential_ended_with(SETUP_ERROR_STATUS):
                raise SetupError(f"The {names[0]} process can't start. Its message above says why.")
            try:
                response = client.get("/readyz")
            except httpx2.TransportError as error:
                last_response = str(error)
            else:
                if response.is_success:
                    return True
                last_response = response.text
            if time.monotonic() > deadline:
                raise SetupError(f"The API was not ready within {SERVING_WITHIN_S:.0f} s: {last_response}.")
    return False


def _sign_in_link(settings: Settings) -> str:
    """Return a new link to the console, or why there is none."""
    try:
        return create_sign_in_link(settings)
    except HeadwaterError as error:
        return error.detail


def greeting(settings: Settings, data_directory: DataDirectory) -> list[str]:
    """Return the lines that are printed when everything is ready."""
    lines = [
        f"Headwater is ready:  {api_url(settings.host, settings.port)}  (API, reference at /docs)",
        f"API key in:          {data_directory.api_key}",
    ]
    variables: list[str] = []
    if settings.port != Settings.model_fields["port"].default:
        variables += [f"HEADWATER_URL={local_api_url(settings)}", f"HEADWATER_PORT={settings.port}"]
    if settings.data_dir != Settings.model_fields["data_dir"].default:
        variables.append(f"HEADWATER_DATA_DIR={shlex.quote(str(settings.data_dir.absolute()))}")
    if variables:
        lines.append(f"In other terminals:  export {' '.join(variables)}")
    if settings.host not in LOCAL_HOSTS:
        lines.append("Warning: other machines can connect, and connections are not encrypted (no TLS).")
    return lines
