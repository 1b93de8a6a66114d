"""The temporary installation of the demo."""

import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2

from headwater.app.environments import PROXIES
from headwater.children import Child, inherited_environment, spawn
from headwater.errors import SetupError
from headwater.settings import Settings

START_WITHIN_S = 120.0
STOP_WITHIN_S = 60.0
SHOWN_OUTPUT_LINES = 20


@dataclass(frozen=True, slots=True)
class Installation:
    """A running installation.

    Attributes:
        port: The port of its API.
        client: An HTTP client with its API key.
        process: The process `headwater up`.
    """

    port: int
    client: httpx2.Client
    process: Child

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **query: str) -> Any:
        """Return the JSON of the response to a GET request."""
        return checked(self.client.get(path, params=query))


@contextlib.contextmanager
def running(data_dir: Path, settings: Settings) -> Iterator[Installation]:
    """Run `headwater up` in a child process, which is stopped at the end.

    The process gets no variable HEADWATER_*, because such variables may name another installation.
    """
    port = _free_port()
    flags = ["--data-dir", str(data_dir), "--cache-dir", str(settings.cache_dir), "--port", str(port)]
    flags += ["--kafka-java", settings.kafka_java] if settings.kafka_java else []
    command = [sys.executable, "-m", "headwater", "up", *flags]
    with tempfile.TemporaryFile() as output:
        environment = inherited_environment(*PROXIES)
        process = spawn(command, stdout=output, stderr=output, env=environment, cwd=str(Path.cwd()))
        try:
            client = _wait_until_ready(process, data_dir, port, lambda: _last_lines(output))
            with client:
                yield Installation(port, client, process)
        finally:
            process.stop(STOP_WITHIN_S)


def checked(response: httpx2.Response) -> Any:
    """Return the JSON of a response. Raises SetupError when it is an error."""
    if response.is_success:
        return response.json()
    request = response.request
    raise SetupError(f"{request.method} {request.url.path} returned {response.status_code}: {response.text}")


def _last_lines(file: IO[bytes]) -> str:
    """Return the last lines of a process's output."""
    file.seek(0)
    lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_OUTPUT_LINES:])


def _wait_until_ready(process: Child, data_dir: Path, port: int, output: Callable[[], str]) -> httpx2.Client:
    deadline = time.monotonic() + START_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=5).is_success:
                key = (data_dir / "api-key").read_text().strip()
                return httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": key}, timeout=70)
        time.sleep(0.05)
    raise SetupError(f"Headwater did not start: {output().strip() or 'it printed nothing'}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
