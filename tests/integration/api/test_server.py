"""The HTTP server's limits, over real sockets."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPResponse
from typing import Any, cast

import anyio
import httpx2
import pytest
import uvicorn
from anyio import to_thread
from anyio.from_thread import start_blocking_portal
from starlette.types import Message, Receive, Scope, Send

from headwater.api.app import create_api
from headwater.api.middleware import ProblemMiddleware, RequestMiddleware
from headwater.api.prometheus import PrometheusMetrics
from headwater.api.server.client_addresses import TrustedProxies
from headwater.api.server.connection_registry import ConnectionRegistry
from headwater.api.server.limits import ServerLimits
from headwater.api.server.protocol import MAX_PIPELINED, LimitedProtocol
from headwater.services.ids import new_id
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation, flow_body

LIMITS = ServerLimits(
    header_bytes=4_096, header_fields=20, header_timeout_s=0.4, stall_timeout_s=0.8, connections_per_address=5
)
TICK_S = 0.1
ORIGIN = "https://app.example.com"
PROXY, CLIENT = "127.0.0.9", "127.0.0.8"
LARGE = b"x" * (64 << 20)


@dataclass
class Server:
    """A server whose application records the requests."""

    port: int
    refused: list[str] = field(default_factory=list)
    seen: list[Message] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    registry: ConnectionRegistry | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._lifespan(receive, send)
            return
        self.clients.append(scope["client"][0])
        body = LARGE if scope["path"] == "/large" else b"answer"
        if scope["path"] == "/read":
            body = str(await self._read(receive)).encode()
        if scope["path"] == "/wait":
            await to_thread.run_sync(self.go_on.wait)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return

    async def _read(self, receive: Receive) -> int:
        size = 0
        while True:
            message = await receive()
            self.seen.append(message)
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                return size

    @contextlib.contextmanager
    def connected(self, source: str = CLIENT) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), 10, (source, 0)) as connection:
            yield connection


@contextlib.contextmanager
def serving(limits: ServerLimits, app: Any = None, cors_origins: Sequence[str] = ()) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    http_server = Server(listener.getsockname()[1])
    http_server.registry = ConnectionRegistry(
        limits,
        TrustedProxies([PROXY]),
        on_refusal=http_server.refused.append,
        tick_s=TICK_S,
        cors_origins=cors_origins,
    )
    config = uvicorn.Config(
        app or http_server,
        http=cast("Any", partial(LimitedProtocol, registry=http_server.registry)),
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=cast("int", limits.keep_alive_s),
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    until(lambda: server.started)
    try:
        yield http_server
    finally:
        http_server.go_on.set()
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(LIMITS) as server:
        yield server


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            found += part
    return found


def body_of(connection: socket.socket) -> bytes:
    """Read one response, and return its body."""
    response = HTTPResponse(connection)
    response.begin()
    return response.read()


def problem(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    document = json.loads(body)
    status, *fields = head.decode().split("\r\n")
    assert status.startswith(f"HTTP/1.1 {document['status']} ")
    assert "Content-Type: application/problem+json" in fields
    assert "Connection: close" in fields
    assert f"X-Request-Id: {document['request_id']}" in fields
    return dict(document)


def get(path: str = "/", *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *fields, "", ""]).encode()


def test_the_connection_stays_open_after_a_normal_request(server: Server) -> None:
    with server.connected() as connection:
        for _ in range(3):
            connection.sendall(get())
            assert body_of(connection) == b"answer"


@pytest.mark.parametrize(
    "head",
    [
        get("/", "X: " + "a" * 5_000),
        get("/" + "a" * 5_000),
        get("/", *(f"X{n}: a" for n in range(30))),
        get("/", *(f"X{n}: " + "a" * 500 for n in range(15))),
        b"GET / HTTP/1.1\r\nX: " + b"a" * 8_000,
        b"\r\n" * 4_000,
    ],
    ids=["long field", "long path", "many fields", "large fields", "unfinished field", "empty lines"],
)
def test_a_too_large_request_head_is_rejected(server: Server, head: bytes) -> None:
    with server.connected() as connection:
        connection.sendall(head)
        assert problem(read_all(connection))["type"] == "urn:headwater:problem:head-too-large"
    assert server.refused == ["head-too-large"]


def test_a_head_that_never_ends_is_held_in_bounded_memory(server: Server) -> None:
    with server.connected() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(100_000):
            connection.sendall(b"a" * 1_000)
        raise AssertionError("100 megabytes of one header field were taken")
    assert server.refused == ["head-too-large"]


def test_trailers_are_limited_like_the_head(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n")
        connection.sendall(b"".join(b"T%d: a\r\n" % n for n in range(30)))
        assert problem(read_all(connection))["status"] == 431


def test_a_body_in_the_same_segment_does_not_count_as_head(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n" + b"a" * 60_000)
        assert body_of(connection) == b"60000"
        connection.sendall(get())
        assert body_of(connection) == b"answer"


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_invalid_http_is_answered_with_a_problem_document(server: Server, junk: bytes) -> None:
    with server.connected() as connection:
        connection.sendall(junk)
        assert problem(read_all(connection))["status"] == 400


def test_a_silent_connection_is_closed(server: Server) -> None:
    with server.connected() as connection:
        assert read_all(connection) == b""


def test_an_idle_connection_is_closed() -> None:
    with serving(replace(LIMITS, keep_alive_s=0.3)) as server, server.connected() as connection:
        connection.sendall(get())
        assert body_of(connection) == b"answer"
        assert read_all(connection) == b""


def test_an_idle_connection_whose_body_came_after_the_response_is_closed() -> None:
    with serving(replace(LIMITS, keep_alive_s=0.3)) as server, server.connected() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        assert body_of(connection) == b"answer"
        connection.sendall(b"12345")
        assert read_all(connection) == b""


def test_a_connection_with_a_slow_head_is_closed(server: Server) -> None:
    with server.connected() as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(0.1)
        answer = b""
        for byte in get("/", "X: " + "a" * 200):
            connection.sendall(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65_536)
                break
        assert problem(answer)["type"] == "urn:headwater:problem:request-timeout"
    assert server.refused == ["request-timeout"]


def test_a_stalled_body_is_rejected_and_the_application_notified(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        rejection = problem(read_all(connection))
    assert (rejection["status"], rejection["instance"]) == (408, "/read")
    until(lambda: server.seen[-1]["type"] == "http.disconnect")


SLOW_BODY = b"POST /read HTTP/1.1\r\nHost: a\r\nOrigin: %s\r\nContent-Length: 100\r\n\r\nabc"


@pytest.mark.parametrize(
    ("allowed", "origin", "expected"),
    [(ORIGIN, ORIGIN, ORIGIN), (ORIGIN, "https://elsewhere.example.com", None), ("*", ORIGIN, "*")],
)
def test_cors_headers_are_on_rejections_after_the_head(allowed: str, origin: str, expected: str | None) -> None:
    with serving(LIMITS, cors_origins=[allowed]) as server, server.connected() as connection:
        connection.sendall(SLOW_BODY % origin.encode())
        fields = refusal_fields(read_all(connection), 408)
    assert fields.get("Access-Control-Allow-Origin") == expected
    assert ("Retry-After" in fields.get("Access-Control-Expose-Headers", "")) == (expected is not None)


def test_rejections_of_the_head_allow_all_origins() -> None:
    with serving(LIMITS, cors_origins=["*"]) as server, server.connected() as connection:
        connection.sendall(b"hello\r\n\r\n")
        assert refusal_fields(read_all(connection), 400)["Access-Control-Allow-Origin"] == "*"


def test_rejections_have_no_cors_headers_without_the_setting(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(SLOW_BODY % ORIGIN.encode())
        assert not {"Access-Control-Allow-Origin", "Vary"} & refusal_fields(read_all(connection), 408).keys()


def refusal_fields(answer: bytes, status: int) -> dict[str, str]:
    """Return the header fields of a rejection."""
    assert problem(answer)["status"] == status
    _, *fields = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return {name: value for name, _, value in (field.partition(": ") for field in fields)}


def test_chunk_extensions_do_not_count_as_body(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1;")
        connection.settimeout(0.05)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while not answer:
                connection.sendall(b"a" * 100)
                with contextlib.suppress(TimeoutError):
                    answer = connection.recv(65_536)
    assert problem(answer)["status"] == 408


def test_a_body_above_the_minimum_rate_is_read_completely(server: Server) -> None:
    """The upload takes longer than all timeouts, but is never silent for that long."""
    with server.connected() as connection:
        connection.sendall(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 8000\r\n\r\n")
        for _ in range(20):
            time.sleep(0.1)
            connection.sendall(b"a" * 400)
        assert body_of(connection) == b"8000"


def test_the_time_in_the_servers_queue_does_not_count_against_the_client(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST /wait HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        time.sleep(1.5)
        server.go_on.set()
        assert body_of(connection) == b"answer"


def test_a_response_that_is_not_read_is_aborted(server: Server) -> None:
    with server.connected() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(get("/large"))
        assert server.registry is not None
        until(lambda: server.registry is not None and len(server.registry) == 1)
        until(lambda: server.registry is not None and not len(server.registry))


def test_a_slowly_read_response_is_complete(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(get("/large"))
        began, size = time.monotonic(), 0
        while time.monotonic() < began + 3:
            size += len(connection.recv(65_536))
            time.sleep(0.02)
        while part := connection.recv(1 << 20):
            size += len(part)
            if size > len(LARGE):
                break
        assert size > len(LARGE)


def test_a_body_after_the_response_is_read_for_a_limited_time(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
        assert body_of(connection) == b"answer"
        deadline = time.monotonic() + 20
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < deadline:
                connection.sendall(b"a" * 1_000)
                time.sleep(0.05)
            raise AssertionError("the body was taken for 20 seconds")


def test_the_connections_per_address_are_limited(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(server.connected()).sendall(get("/wait"))
        until(lambda: len(server.clients) == 5)
        with server.connected() as one_more:
            rejection = problem(read_all(one_more))
        assert (rejection["status"], rejection["type"]) == (429, "urn:headwater:problem:too-many-connections")
        with server.connected("127.0.0.7") as of_another:
            of_another.sendall(get())
            assert body_of(of_another) == b"answer"


def test_slow_connections_are_closed_at_the_total_limit() -> None:
    limits = replace(LIMITS, connections=10, connections_per_address=10, header_timeout_s=60)
    with serving(limits) as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connected()) for _ in range(10)]
        for connection in slow:
            connection.sendall(b"GET / HT")
        until(lambda: server.registry is not None and len(server.registry) == 10)
        for _ in range(3):
            with server.connected("127.0.0.7") as user:
                user.sendall(get())
                assert body_of(user) == b"answer"


def test_the_clients_address_comes_from_a_trusted_proxy_only(server: Server) -> None:
    for source, forwarded in ((PROXY, "203.0.113.7, 198.51.100.9"), (CLIENT, "203.0.113.7")):
        with server.connected(source) as connection:
            connection.sendall(get("/", f"X-Forwarded-For: {forwarded}"))
            assert body_of(connection) == b"answer"
    assert server.clients == ["198.51.100.9", CLIENT]


def test_requests_of_one_client_behind_a_proxy_are_counted(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            waiting = stack.enter_context(server.connected(PROXY))
            waiting.sendall(get("/wait", "X-Forwarded-For: 203.0.113.7"))
        until(lambda: len(server.clients) == 5)
        with server.connected(PROXY) as one_more:
            one_more.sendall(get("/read", "X-Forwarded-For: 203.0.113.7"))
            rejection = problem(read_all(one_more))
            assert (rejection["status"], rejection["instance"]) == (429, "/read")
        with server.connected(PROXY) as of_another:
            of_another.sendall(get("/", "X-Forwarded-For: 203.0.113.8"))
            assert body_of(of_another) == b"answer"
        server.go_on.set()
        until(lambda: _answers(server))


def _answers(server: Server) -> bool:
    with server.connected(PROXY) as connection:
        connection.sendall(get("/", "X-Forwarded-For: 203.0.113.7"))
        return body_of(connection) == b"answer"


def test_a_request_that_outlasts_the_stop_is_interrupted() -> None:
    begun = threading.Event()

    async def endless(scope: Scope, _receive: Receive, _send: Send) -> None:
        assert scope["type"] == "http"  # uvicorn serves an application whose lifespan fails
        begun.set()
        await anyio.sleep_forever()

    app = RequestMiddleware(ProblemMiddleware(endless), PrometheusMetrics(None), new_id)
    with contextlib.ExitStack() as stack:
        with serving(LIMITS, app) as server:
            connection = stack.enter_context(server.connected())
            connection.sendall(get())
            begun.wait()
        document = json.loads(body_of(connection))
    assert (document["status"], document["type"]) == (500, "urn:headwater:problem:interrupted")
    assert "before you send it again" in document["detail"]


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(get() * MAX_PIPELINED)
        found = b""
        while found.count(b"answer") < MAX_PIPELINED:
            part = connection.recv(65_536)
            assert part
            found += part


def test_an_endless_pipeline_is_closed(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(get("/wait") + get() * 1_000)
        until(lambda: bool(server.refused))
        assert read_all(connection) == b""


def test_an_upgrade_request_is_answered_with_http(server: Server) -> None:
    with server.connected() as connection:
        connection.sendall(get("/", "Connection: Upgrade", "Upgrade: websocket") + b"junk" * 100)
        assert b"connection: close" in (answer := read_all(connection))
        assert answer.endswith(b"answer")


def test_five_concurrent_large_uploads_succeed() -> None:
    """The bodies have 250,000 values of 66 characters, and the limits are the defaults."""
    body = b"a" * (250_000 * 69)

    def upload(port: int) -> str:
        return httpx2.post(f"http://127.0.0.1:{port}/read", content=body, timeout=60).text

    with serving(ServerLimits()) as server:
        sizes: list[str] = []
        threads = [threading.Thread(target=lambda: sizes.append(upload(server.port))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sizes == [str(len(body))] * 5
        assert server.refused == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_stalled_upload_of_values_changes_nothing(method: str) -> None:
    with start_blocking_portal() as portal:
        headwater = Installation(portal)
        with serving(LIMITS, create_api(headwater.services())) as server:
            headers = {"X-API-Key": headwater.keys.create("alice")}
            with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers) as client:
                flow = client.post(FLOW, json=flow_body()).json()
                path = f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"
                assert client.post(path, json={"values": ["a", "b"]}).json()["added"] == 2
                with server.connected() as connection:
                    head = [f"{method} {path} HTTP/1.1", "Host: a", f"X-API-Key: {headers['X-API-Key']}"]
                    head += ["Content-Type: application/json", "Content-Length: 100", "", '{"values": ["c"']
                    connection.sendall("\r\n".join(head).encode())
                    assert problem(read_all(connection))["status"] == 408
                assert sorted(client.get(path).json()["values"]) == ["a", "b"]
