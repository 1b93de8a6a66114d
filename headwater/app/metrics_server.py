"""Serves Prometheus metrics on a port of 127.0.0.1.

The number of connections, their duration and the size of the request head are limited.

prometheus-client's own server has no such limits.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from headwater.errors import SetupError

HOST = "127.0.0.1"
CONNECTIONS = 8
CONNECTION_TIMEOUT_S = 10.0
HEAD_BYTES = 16_384


class _LimitedReader:
    """Reads at most HEAD_BYTES from the client. A longer request head is cut there and treated as complete."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = HEAD_BYTES

    def readline(self, limit: int = -1) -> bytes:
        """Return the next line, or a part of it; b"" at the end."""
        line = self._file.readline(self._left if limit < 0 else min(limit, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _LimitedReader(self.rfile)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._slots = threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a new thread, or close it when there are CONNECTIONS already."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and shut it down after CONNECTION_TIMEOUT_S seconds."""
        cut = threading.Timer(CONNECTION_TIMEOUT_S, _cut, [request])
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the errors of clients that have disconnected."""


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


@contextmanager
def serve_metrics(port: int, collector: Collector, setting: str) -> Iterator[None]:
    """Serve metrics at http://127.0.0.1:<port>/metrics during the block; with port 0, nothing is served.

    Raises SetupError when the port is in use. `setting` tells the user in the message where to set the port.
    """
    if not port:
        yield
        return
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server = make_server(HOST, port, make_wsgi_app(registry), _Server, _Handler)
    except OSError as error:
        reason = error.strerror or error
        raise SetupError(
            f"Metrics can't be served on {HOST}:{port} ({reason}). Choose another port with {setting}."
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics port", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
