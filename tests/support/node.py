"""An HTTP server in front of a node, or in place of one, that behaves as providers do on bad days."""

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

import httpx2

CUT: Final = "cut"
"""The connection ends without an answer."""


class Reply(NamedTuple):
    """An answer of HTTP. body: made JSON, but for bytes."""

    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


class CallError(NamedTuple):
    """The error of one call of a batch."""

    code: int
    message: str


Behave = Callable[[Any], Reply | str | None]
"""Takes a decoded request; None passes it on to the node."""


class Node:
    """behave: looked at for each request, may be changed at any time. requests: all that came, decoded."""

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
            assert self._http is not None, "no node to pass the request on to"
            return self._http.post("/", content=raw, headers={"Content-Type": "application/json"}).content
        return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True  # else the end of a long answer waits 40 ms

            def do_POST(self) -> None:  # the standard library's name
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if not raw:  # the client went away
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
                """Tests are quiet."""

        return Handler


def _encoded(body: Any) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def calls_of(request: Any) -> list[dict[str, Any]]:
    """The calls of a request, one or a batch."""
    return request if isinstance(request, list) else [request]


def results(request: Any, result_of: Callable[[str, list[Any]], Any]) -> Reply:
    """An answer with a result, or a CallError, for each call."""
    answers = [_answer(call["id"], result_of(call["method"], call["params"])) for call in calls_of(request)]
    return Reply(200, answers if isinstance(request, list) else answers[0])


def _answer(id_: Any, result: Any) -> dict[str, Any]:
    if isinstance(result, CallError):
        return {"jsonrpc": "2.0", "id": id_, "error": {"code": result.code, "message": result.message}}
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def error(request: Any, code: int, message: str, status: int = 200) -> Reply:
    """One error in place of all answers, as many nodes send it; for a single call, its error."""
    id_ = None if isinstance(request, list) else request["id"]
    return Reply(status, {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}})
