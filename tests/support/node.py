"""An HTTP server that replaces a JSON-RPC node, or is a proxy to a node.

It fails like real providers.
"""

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

import httpx2

CUT: Final = "cut"
"""The connection is closed without a response."""


class Reply(NamedTuple):
    """An HTTP response. A body that is not bytes is encoded as JSON."""

    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


class CallError(NamedTuple):
    """The error of one call in a batch."""

    code: int
    message: str


Behave = Callable[[Any], Reply | str | None]
"""Returns the reply to a decoded request; None forwards the request to the node."""


class Node:
    """The server.

    Attributes:
        behave: Is called for each request, and may be replaced at any time.
        requests: All decoded requests so far.
    """

    def __init__(self, behave: Behave, target: str = "") -> None:
        self.behave = behave
        self.requests: list[Any] = []
        self._http = httpx2.Client(base_url=target, timeout=30) if target else None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self._http is not None:
            self._http.close()

    def answer(self, raw: bytes) -> Reply | str | bytes:
        request = json.loads(raw)
        self.requests.append(request)
        reply = self.behave(request)
        if reply is None:
            assert self._http is not None, "there is no node to forward the request to"
            return self._http.post("/", content=raw, headers={"Content-Type": "application/json"}).content
        return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True  # otherwise the end of a long response is delayed by 40 ms

            def do_POST(self) -> None:  # the standard library's name
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if not raw:  # the client has disconnected
                    self.close_connection = True
                    return
                reply = node.answer(raw)
                if isinstance(reply, str):
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                if isinstance(reply, bytes):
                    reply = Reply(200, json.loads(reply))
                body = reply.body if isinstance(reply.body, bytes) else _encoded(reply.body)
                self.send_response(reply.status)
                for name, value in (*reply.headers, ("Content-Length", str(len(body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler


def _encoded(body: Any) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def calls_of(request: Any) -> list[dict[str, Any]]:
    """Return the calls of a request, which is a single call or a batch."""
    return request if isinstance(request, list) else [request]


def results(request: Any, result_of: Callable[[str, list[Any]], Any]) -> Reply:
    """Return a reply with a result, or a CallError, for each call."""
    answers = [_answer(call["id"], result_of(call["method"], call["params"])) for call in calls_of(request)]
    return Reply(200, answers if isinstance(request, list) else answers[0])


def _answer(id_: Any, result: Any) -> dict[str, Any]:
    if isinstance(result, CallError):
        return {"jsonrpc": "2.0", "id": id_, "error": {"code": result.code, "message": result.message}}
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def error(request: Any, code: int, message: str, status: int = 200) -> Reply:
    """Return a reply with one error for the whole request, as many nodes send it for a batch."""
    id_ = None if isinstance(request, list) else request["id"]
    return Reply(status, {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}})
