"""A small HTTP server for the metrics of a process and for the orchestrator of a worker.

The number of connections, their duration and the size of a request are limited, unlike in the servers of
wsgiref and prometheus-client.
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
from wsgiref.types import WSGIApplication

CONNECTIONS = 8
CONNECTION_TIMEOUT_S = 25.0
REQUEST_BYTES = 16_384


class _LimitedReader:
    """Reads at most REQUEST_BYTES from the client.

    A longer request is truncated and treated as complete.
    """

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._remaining_bytes = REQUEST_BYTES

    def readline(self, limit: int = -1) -> bytes:
        """Return the next line, or a part of it; b"" at the end."""
        line = self._file.readline(self._remaining_bytes if limit < 0 else min(limit, self._remaining_bytes))
        self._remaining_bytes -= len(line)
        return line

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`."""
        data = self._file.read(min(size, self._remaining_bytes))
        self._remaining_bytes -= len(data)
        return data

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
        self._free_connections = threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a new thread, or close it when there are CONNECTIONS already."""
        if not self._free_connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except Exception:  # no thread could be started; the caller closes the connection
            self._free_connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and shut it down after CONNECTION_TIMEOUT_S seconds."""
        timer = threading.Timer(CONNECTION_TIMEOUT_S, _shut_down, [request])
        timer.daemon = True
        try:
            timer.start()
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._free_connections.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore all errors of a connection. Nearly all are of clients that have disconnected."""


def _shut_down(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


@contextmanager
def serve(host: str, port: int, application: WSGIApplication) -> Iterator[None]:
    """Serve an application during the block. Raises OSError when the address can't be used."""
    server = make_server(host, port, application, _Server, _Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.1), name=f"port {port}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
