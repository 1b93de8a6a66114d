"""Responds to each request with the example of the API's description."""

import json
import re
from pathlib import Path
from typing import Any

from tests.support.scripted_server import ReceivedRequest, ScriptedResponse, json_response, problem_response

OPENAPI: dict[str, Any] = json.loads((Path(__file__).parents[2] / "docs/reference/openapi.json").read_text("utf-8"))
METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return the method, the path and the description of each operation, by its id."""
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in OPENAPI["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    }


def operation_of(request: ReceivedRequest) -> str:
    """Return the id of the operation that a request calls.

    Of several paths that match, it is the one with the fewest parameters.
    """
    found = [
        (path.count("{"), name)
        for name, (method, path, _) in operations().items()
        if method == request.method and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", path), request.path)
    ]
    return min(found)[1] if found else ""


def respond(request: ReceivedRequest) -> ScriptedResponse:
    """Return the example response. A second page is empty, and the last one."""
    name = operation_of(request)
    if not name:
        return problem_response(404, "not-found", f"{request.method} {request.path} is not described.")
    status, response = _response(request, operations()[name][2])
    if status == 204:
        return ScriptedResponse(204)
    if "cursor" in request.query:
        return json_response({"items": [], "values": [], "cursor": None})
    media_type, content = next(iter(response["content"].items()))
    example = _METRICS.get(frozenset(request.query) & {"aggregated", "by"}, content["example"])
    body = example if isinstance(example, str) else json.dumps(example)
    return ScriptedResponse(status, [body.encode()], {"Content-Type": media_type})


def _response(request: ReceivedRequest, operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the status and the description of the response.

    A redrive has two of them, one for a dry run.
    """
    codes = sorted(code for code in operation["responses"] if code.startswith("2"))
    code = codes[0] if b'"dry_run":true' in request.body else codes[-1]
    return int(code), operation["responses"][code]


_METRICS: dict[frozenset[str], dict[str, Any]] = {
    frozenset({"aggregated"}): {
        "pipeline_id": "01ke0a2x8rv5c3m7qd9t4jw6hz",
        "time_range": "1h",
        "messages_received_per_min": 1200.0,
        "total_latency": {"p50": 14.3, "p90": 20.1, "p99": 31.0, "unit": "ms"},
    },
    frozenset({"by"}): {
        "config_id": "01ke0a2x8rv5c3m7qd9t4jw6hz",
        "metrics": [{"transform_uid": "01ke0a2x8rv5c3m7qd9t4jw6j1", "metric_type": "dropped", "points": []}],
    },
}
"""The responses for metrics in the forms of which the description has no example."""
