"""A port of 127.0.0.1 with Prometheus series: few connections at once, each for a short time and with a short head."""

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


class _Head:
    """What a client sends, up to HEAD_BYTES: a longer head ends there, as if it were complete."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = HEAD_BYTES

    def readline(self, limit: int = -1) -> bytes:
        """The next line, or a part of it; nothing at the end."""
        line = self._file.readline(self._left if limit < 0 else min(limit, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _Head(self.rfile)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._slots = threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """On a thread of its own; a connection too many is closed."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """A connection that takes longer than CONNECTION_TIMEOUT_S is cut."""
        cut = threading.Timer(CONNECTION_TIMEOUT_S, _cut, [request])
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is nobody's fault here."""


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(port: int, collector: Collector) -> Iterator[None]:
    """Serve the series at http://127.0.0.1:<port>/metrics; 0 is no port. Raises SetupError when it is taken."""
    if not port:
        yield
        return
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server = make_server(HOST, port, make_wsgi_app(registry), _Server, _Handler)
    except OSError as error:
        reason = error.strerror or error
        sentence = f"Metrics of pipelines can't be served on {HOST}:{port} ({reason})."
        raise SetupError(f"{sentence} Choose another port with --metrics-port.") from error
    thread = threading.Thread(target=server.serve_forever, name="metrics port", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
