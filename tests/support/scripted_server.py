"""An HTTP server whose responses a test decides, also broken ones."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as the server has received it."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """A response of the server.

    Attributes:
        parts: The body in parts.
        breaks: Whether the connection is closed after the parts, before the end of the body.
        closes_at_once: Whether the connection is closed without a response.
    """

    status: int = 200
    parts: Iterable[bytes] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    breaks: bool = False
    closes_at_once: bool = False


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> ScriptedResponse:
    return ScriptedResponse(
        status, [json.dumps(body).encode()], {"Content-Type": "application/json", **(headers or {})}
    )


def problem_response(
    status: int, name: str, detail: str = "", headers: Mapping[str, str] | None = None, **members: Any
) -> ScriptedResponse:
    document = {"type": f"urn:headwater:problem:{name}", "title": name, "status": status, "detail": detail, **members}
    return json_response(document, status, {**(headers or {}), "Content-Type": "application/problem+json"})


Respond = Callable[[ReceivedRequest], ScriptedResponse]


class ScriptedServer:
    """Listens on loopback, and keeps all requests.

    Attributes:
        url: The address of the server.
        requests: The requests so far.
        respond: Returns the response to a request; a test may replace it.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.requests: list[ReceivedRequest] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> "ScriptedServer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(server: "ScriptedServer") -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has its own self
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # otherwise the body of a response is delayed by 40 ms

            def _handle(self) -> None:
                address = urlsplit(self.path)
                request = ReceivedRequest(
                    self.command, address.path, parse_qs(address.query), dict(self.headers), _body(self)
                )
                server.requests.append(request)
                with contextlib.suppress(ConnectionError):
                    _send(self, server.respond(request))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the names of the base class

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
                pass

        return Handler


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding") == "chunked":
        return b"".join(_chunks(handler))
    return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))


def _chunks(handler: BaseHTTPRequestHandler) -> Iterator[bytes]:
    while size := int(handler.rfile.readline(), 16):
        yield handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()


def _send(handler: BaseHTTPRequestHandler, response: ScriptedResponse) -> None:
    if response.closes_at_once:
        handler.close_connection = True
        return
    handler.send_response(response.status)
    for name, value in response.headers.items():
        handler.send_header(name, value)
    if response.status != 204:
        handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for part in response.parts:
        handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    if response.breaks:
        handler.close_connection = True
    elif response.status != 204:
        handler.wfile.write(b"0\r\n\r\n")
