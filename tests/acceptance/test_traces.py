"""A receiver of OpenTelemetry gets one trace of each deploy, by OTLP over HTTP."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.installation import Deployed, Installation, deploy, in_background, kill, pipeline
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ERROR = 2
"""The status of a span whose work has failed."""


class ReceivedSpan(NamedTuple):
    """A span, with the name of the service that has sent it."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    linked: list[str]
    status: int


class Receiver:
    """Receives traces like an OpenTelemetry collector."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                spans.extend(_decoded(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def deploys(self) -> list[ReceivedSpan]:
        """Return the first spans of the deploys that have ended."""
        return sorted((span for span in self.spans if span.name == "deploy"), key=lambda span: span.start_ns)

    def trace(self, trace_id: str) -> dict[str, ReceivedSpan]:
        """Return the spans of a trace by name."""
        return {span.name: span for span in self.spans if span.trace_id == trace_id}


def _decoded(body: bytes) -> Iterator[ReceivedSpan]:
    """Yield the spans of an export."""
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield ReceivedSpan(
                service,
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                {each.key: each.value.string_value for each in span.attributes},
                [link.trace_id.hex() for link in span.links],
                span.status.code,
            )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.stop()


def script(mark: str) -> dict[str, Any]:
    return {"type": "v8", "script": f"function process(record) {{ return {{...record, mark: {mark!r}}}; }}"}


def test_each_deploy_has_a_trace(own_installation: Installation, receiver: Receiver) -> None:
    own_installation.variables["HEADWATER_OTLP_ENDPOINT"] = receiver.url
    own_installation.start()
    with own_installation.client() as client:
        client.headers["traceparent"] = f"00-{TRACE}-{CALLER}-01"
        flow = deploy(client, pipeline(transforms=[script("0")]))
        del client.headers["traceparent"]
        transform = f"/api/v1/flow/{flow.id}/transforms/{flow.uid()}"
        assert client.patch(transform, json=script("1")).status_code == 200
        with in_background(lambda stop: kill_new_workers(own_installation, flow, stop)):
            assert client.patch(transform, json=script("2")).status_code == 422
        until(lambda: len(receiver.deploys()) == 3, 30, "the end of three deploys")
    assert own_installation.stop() == 0, "the last spans are sent at the end"
    deploys = receiver.deploys()
    assert [span.attributes["headwater.outcome"] for span in deploys] == ["Superseded", "Superseded", "RolledBack"]
    first, second, third = (receiver.trace(span.trace_id) for span in deploys)
    for trace in (first, second, third):
        root = trace["deploy"]
        assert root.parent_id == ""
        assert {span.parent_id for span in trace.values()} == {"", root.span_id}
        assert {"PrepareRevision", "EnsureWorkers", "headwater-api", "headwater-controller"} <= {
            *trace,
            *(span.service for span in trace.values()),
        }
    check_caller(receiver, first)
    assert first["start of a worker"].end_ns > first["start of a worker"].start_ns
    assert {"hand-over", "start of a worker", "PATCH /api/v1/flow/{config_id}/transforms/{transform_uid}"} <= set(
        second
    )
    assert "hand-over" not in {*first, *third}
    assert third["deploy"].status == ERROR
    assert third["PATCH /api/v1/flow/{config_id}/transforms/{transform_uid}"].status == ERROR


def check_caller(receiver: Receiver, deploy_trace: dict[str, ReceivedSpan]) -> None:
    """The caller's trace has the request too, and the two traces link to each other."""
    request = "POST /api/v1/flow/{config_id}/deploy"
    in_caller = receiver.trace(TRACE)
    assert list(in_caller) == [request]
    assert in_caller[request].parent_id == CALLER
    assert in_caller[request].linked == [deploy_trace["deploy"].trace_id]
    assert deploy_trace[request].linked == [TRACE]


def kill_new_workers(installation: Installation, flow: Deployed, stop: threading.Event) -> None:
    """Kill each worker that starts, until `stop` is set."""
    old = set(installation.workers_of(flow))
    while not stop.wait(0.02):
        kill(list(set(installation.workers_of(flow)) - old))
