"""The OpenAPI description of the API, and the page /docs that shows the description.

The page loads nothing from other hosts.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.staticfiles import StaticFiles

import headwater
from headwater.api import examples, idempotency
from headwater.api.guarded_routes import SCOPE, SCOPE_WHEN_DEPLOYED, SCOPE_WITH_PRICES_SINK
from headwater.api.openapi_links import LINKS
from headwater.api.problems import MEDIA_TYPE, METHOD_NOT_ALLOWED, PROBLEM_TYPES, URN, ProblemType
from headwater.api.schemas import ProblemDetails
from headwater.errors import DeployPending, Unavailable
from headwater.model.idempotency import KEY_PATTERN

TITLE = "Headwater"
DESCRIPTION = (
    "Filters streams of blockchain records into Kafka topics of your own. Every error is a problem document (RFC 9457)."
)
ASSETS = "/docs/assets"
SWAGGER_UI = Path(__file__).with_name("swagger_ui")
JSON = "application/json"
PROBLEM_SCHEMA = {"$ref": "#/components/schemas/ProblemDetails"}
DEFAULT_PROBLEM_TYPES = {
    problem_type.status: problem_type for problem_type in reversed((*PROBLEM_TYPES.values(), METHOD_NOT_ALLOWED))
} | {HTTPStatus.SERVICE_UNAVAILABLE: PROBLEM_TYPES[Unavailable]}
"""The problem type that documents each status: the first one with this status in PROBLEM_TYPES.

For 503, it is the type of Unavailable.
"""
COMMON_STATUSES = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
BODY_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

TAGS = {
    "Configurations": "What a pipeline reads, does and writes. Saving a configuration runs nothing.",
    "Revisions": "The history of a configuration: what changed, who changed it, and how to roll back.",
    "Transforms": "The transforms of a stored configuration. A change redeploys a configuration that is deployed.",
    "Deployments": "Deployed configurations: start and stop a pipeline, get its credentials, look at its workers.",
    "Dead letters": "The records that a deployed pipeline could not process, and why.",
    "Filter values": "The sets of `redis_set_filter` transforms. Changes take effect at once, without a deploy.",
    "Datasets": "Named sets in which scripts look values up with `flow.contains(name, values)`.",
    "Streams": "The catalog of streams that the source of a configuration can read.",
    "Records": "Look at the records of streams, outputs and dead letters: some of them, or all new ones as they come.",
    "Prices": "Rolling statistics of token prices, from the ticks of pipelines with a prices sink.",
    "Health": "Liveness, readiness and metrics of the process. No key is needed.",
}

PATH_PARAMETERS = {
    "config_id": "The `id` of a configuration.",
    "transform_uid": "The `uid` of a transform, from the configuration.",
    "dataset_id": "The `id` of a dataset.",
    "redrive_id": "The `id` of a redrive, from the response to its request.",
    "chain": "The chain of a stream, from the catalog.",
    "entity": "The entity of a stream, from the catalog.",
    "revision": "The number of a revision.",
}


def _header(description: str, *, required: bool = True, **schema: Any) -> dict[str, Any]:
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


REQUEST_ID = {"X-Request-Id": _header("The id of the request in Headwater's log.")}
LOCATION = {"Location": _header("The path of the new object.")}
IDEMPOTENCY_REPLAYED = {
    idempotency.REPLAYED_HEADER: _header(
        "`true` when this is the stored response of an earlier request.", required=False
    )
}
IDEMPOTENCY_KEY = {
    "name": idempotency.IDEMPOTENCY_KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "Executes the request once: a repeat within 24 hours gets the stored response, 422 with another "
    "body, or 409 during the first request. 5xx, 429 and responses to invalid requests are not stored.",
    "schema": {"type": "string", "pattern": KEY_PATTERN},
}
ETAG = {"ETag": _header("The revision, in quotes. Send it as If-Match.", pattern='^"[0-9]+"$')}
HEADERS: dict[int, dict[str, Any]] = {
    HTTPStatus.CREATED: LOCATION,
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": _header("Says that an API key is needed.")},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": _header("Seconds to wait.", pattern="^[0-9]+$")},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": _header("Seconds to wait.", pattern="^[0-9]+$")},
}
"""The headers that every response of a status has."""

Responses = dict[int | str, dict[str, Any]]


def problem_responses(*statuses: int) -> Responses:
    """Return the `responses` of an authenticated route.

    They are the errors of these statuses, and the errors that every authenticated route has.
    """
    return {
        int(status): problem_response(DEFAULT_PROBLEM_TYPES[HTTPStatus(status)])
        for status in sorted({*statuses, *COMMON_STATUSES})
    }


def body_problem_responses(*statuses: int) -> Responses:
    """Return the `problem_responses` of a route with a request body."""
    return problem_responses(*statuses, *BODY_STATUSES)


def problem_response(problem_type: ProblemType) -> dict[str, Any]:
    """Return the OpenAPI response of one problem type."""
    example: dict[str, Any] = {
        "type": URN + problem_type.name,
        "title": problem_type.title,
        "status": problem_type.status.value,
        "detail": problem_type.public_detail or f"{problem_type.title}. This sentence says what to do.",
        "instance": "/api/v1/flow",
        "request_id": examples.REQUEST_ID,
    }
    if problem_type.status is HTTPStatus.UNPROCESSABLE_ENTITY:
        example["errors"] = [{"pointer": "/name", "detail": "is required"}]
    return {"description": problem_type.title, "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA, "example": example}}}


PENDING_RESPONSE: Responses = {503: problem_response(PROBLEM_TYPES[DeployPending])}
"""The 503 of a route that waits for the controller."""


def etag_responses(status: int = HTTPStatus.OK, *, required: bool = True) -> Responses:
    """Return the `responses` of a route whose response has an ETag.

    Combine them with `problem_responses` by `|`.

    Args:
        status: The status of the response.
        required: Whether every response of the status has an ETag.
    """
    return {int(status): {"headers": {name: header | {"required": required} for name, header in ETAG.items()}}}


def add_description(app: FastAPI, render: Callable[[], bytes]) -> None:
    """Add the OpenAPI description and the files of the page /docs to the app.

    The build downloads the files of the page, which are Swagger UI.
    """
    app.state.description = render
    app.mount(ASSETS, StaticFiles(directory=str(SWAGGER_UI)))


def render_description(routes: Sequence[APIRoute]) -> bytes:
    """Return the OpenAPI description of routes as JSON. Rendering takes a second."""
    return json.dumps(describe(routes), ensure_ascii=False, separators=(",", ":")).encode()


def describe(routes: Sequence[APIRoute]) -> dict[str, Any]:
    """Return the OpenAPI description of routes, with errors, headers, links and examples."""
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    schema = get_openapi(title=TITLE, version=headwater.__version__, description=DESCRIPTION, routes=routes, tags=tags)
    schemas = schema["components"]["schemas"]
    problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["ProblemDetails"] = problem
    for method, operation in _operations(schema):
        _remove_fastapi_errors(operation)
        if SCOPE in operation and method.upper() in idempotency.METHODS:
            _describe_idempotency(operation)
        _add_scopes_headers_and_examples(operation)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return schema


def _operations(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return (operation for path in schema["paths"].values() for operation in path.items())


def _describe_idempotency(operation: dict[str, Any]) -> None:
    operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    for status, response in problem_responses(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY).items():
        operation["responses"].setdefault(str(status), response)
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            response["headers"] = response.get("headers", {}) | IDEMPOTENCY_REPLAYED


def _add_scopes_headers_and_examples(operation: dict[str, Any]) -> None:
    if SCOPE in operation:
        operation["description"] += f"\n\n{_required_scopes(operation)}"
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            parameter["description"] = PATH_PARAMETERS[parameter["name"]]
    for status, response in operation["responses"].items():
        response["headers"] = REQUEST_ID | HEADERS.get(int(status), {}) | response.get("headers", {})
        if links := LINKS.get(operation["operationId"]) if status.startswith("2") else None:
            response["links"] = links
        if content := response.get("content", {}).get(JSON):
            _add_example(operation["operationId"], content)


def _required_scopes(operation: dict[str, Any]) -> str:
    """Return the sentence that says which scopes the API key must have."""
    scopes = f"the scope `{operation[SCOPE]}`"
    if scope := operation.get(SCOPE_WHEN_DEPLOYED):
        scopes += f", and `{scope}` while the configuration is deployed"
    if scope := operation.get(SCOPE_WITH_PRICES_SINK):
        scopes += f", and `{scope}` when the configuration has a prices sink"
    return f"Needs {scopes}."


def _add_example(operation_id: str, content: dict[str, Any]) -> None:
    schema = content["schema"]
    name = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
    example = examples.BY_OPERATION.get(operation_id, examples.BY_SCHEMA.get(name))
    if example is None:
        return
    # The items of replaceTransforms are a union without a name, and its example in BY_OPERATION is a list already.
    is_array_of_named_schema = "items" in schema and name
    content["example"] = [example] if is_array_of_named_schema else example


def _remove_fastapi_errors(operation: dict[str, Any]) -> None:
    """Remove the 422 response in FastAPI's own form, which this API never sends."""
    response = operation["responses"].get("422")
    if response and JSON in response["content"]:
        del operation["responses"]["422"]


router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def description(request: Request) -> Response:
    """Returns the description of the API."""
    return Response(request.app.state.description(), media_type=JSON)


@router.get("/docs")
async def docs() -> HTMLResponse:
    """Returns Swagger UI, without its validator badge, which would call another host."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=TITLE,
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
        swagger_ui_parameters={"validatorUrl": None},
    )
