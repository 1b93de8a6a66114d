"""Serves the HTTP interface of a worker in a Pod.

The kubelet sends probes, and the orchestrator reads reports and sends requests.
"""

import hmac
from collections.abc import Callable, Iterable
from http import HTTPStatus
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from pydantic import TypeAdapter, ValidationError

from headwater.engine.http_channel import HttpChannel
from headwater.model.reading_plan import ReadingPlan

REPORT_TIMEOUT_S = 15.0
"""How long `GET /status` waits for a change."""
STOP_TIMEOUT_S = 15.0
"""How long `POST /stop` waits for the end of the worker."""
_READING_PLAN = TypeAdapter(ReadingPlan)

Response = tuple[HTTPStatus, bytes]


def worker_application(channel: HttpChannel, token: str) -> WSGIApplication:
    """Return the application of a worker.

    `GET /healthz` and `GET /readyz` need no token, since the kubelet sends none. The other requests need it.
    `GET /status?seen=<version>&line=<number>` answers with a WorkerReport as soon as the version of the report is not
    `seen`; `line` is the number of the first log line to return. `POST /join` lets the worker join its consumer group;
    its body is a ReadingPlan, which says which partitions the worker reads alone. `POST /stop?leave=<0 or 1>` answers
    200 once the worker has closed its Kafka clients, or 202 if that takes too long;
    with 1 the worker also leaves its consumer group.

    Args:
        channel: The worker's end of the connection.
        token: The token that the orchestrator sends.
    """
    routes: dict[tuple[str, str], Callable[[WSGIEnvironment], Response]] = {
        ("GET", "/status"): lambda request: _status(channel, request),
        ("POST", "/join"): lambda request: _join(channel, request),
        ("POST", "/stop"): lambda request: _stop(channel, request),
    }
    expected = f"Bearer {token}".encode()

    def application(request: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        status, body = respond(request)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    def respond(request: WSGIEnvironment) -> Response:
        path = request["PATH_INFO"]
        if path in ("/healthz", "/readyz"):
            is_good = channel.is_alive if path == "/healthz" else channel.is_ready
            return HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE, b""
        route = routes.get((request["REQUEST_METHOD"], path))
        if route is None:
            return HTTPStatus.NOT_FOUND, b""
        if not hmac.compare_digest(request.get("HTTP_AUTHORIZATION", "").encode(), expected):
            return HTTPStatus.UNAUTHORIZED, b""
        try:
            return route(request)
        except (ValidationError, ValueError):
            return HTTPStatus.BAD_REQUEST, b""

    return application


def _status(channel: HttpChannel, request: WSGIEnvironment) -> Response:
    query = parse_qs(request["QUERY_STRING"])
    seen, line = (int(query.get(name, ["0"])[0]) for name in ("seen", "line"))
    report = channel.report(seen, line, REPORT_TIMEOUT_S)
    return HTTPStatus.OK, report.model_dump_json().encode()


def _join(channel: HttpChannel, request: WSGIEnvironment) -> Response:
    body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
    channel.join(_READING_PLAN.validate_json(body))
    return HTTPStatus.NO_CONTENT, b""


def _stop(channel: HttpChannel, request: WSGIEnvironment) -> Response:
    leave_group = parse_qs(request["QUERY_STRING"]).get("leave") == ["1"]
    has_ended = channel.stop(leave_group=leave_group, timeout_s=STOP_TIMEOUT_S)
    return HTTPStatus.OK if has_ended else HTTPStatus.ACCEPTED, b""
