"""The API's description: errors, headers, links and examples, and a page that shows it without any outside address."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from headwater.api import examples, idempotency
from headwater.api.links import LINKS
from headwater.api.problems import KINDS, MEDIA_TYPE, METHOD_NOT_ALLOWED, URN, Kind
from headwater.api.schemas import ProblemDetails
from headwater.model.idempotency import KEY_PATTERN

ASSETS = "/docs/assets"
JSON = "application/json"
SCOPE, SCOPE_WHEN_DEPLOYED = "x-scope", "x-scope-when-deployed"
SCOPE_WITH_PRICES = "x-scope-with-prices-sink"
SCHEMA = {"$ref": "#/components/schemas/ProblemDetails"}
KIND_OF_STATUS = {kind.status: kind for kind in reversed((*KINDS.values(), METHOD_NOT_ALLOWED))}
"""The first kind of each status stands for it."""
EVERYWHERE = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
BODY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

TAGS = {
    "Configurations": "What a pipeline reads, does and writes. Saving one runs nothing.",
    "Transforms": "The transforms of a stored configuration. A change redeploys the pipeline when it is deployed.",
    "Deployments": "The running form of a configuration: start it, read from it, look at its workers, stop it.",
    "Filter values": "The sets of `redis_set_filter` transforms. Changes take effect at once, without a deploy.",
    "Datasets": "Named sets that scripts look values up in with `flow.contains(name, values)`.",
    "Streams": "What a configuration's source can name.",
    "Prices": "Rolling statistics of token prices, from the ticks of pipelines with a prices sink.",
    "Health": "Liveness, readiness and metrics of the process. No key is needed.",
}

PATH_PARAMETERS = {
    "config_id": "The `id` of a configuration.",
    "transform_uid": "The `uid` of a transform, from the configuration.",
    "dataset_id": "The `id` of a dataset.",
}


def _header(description: str, *, required: bool = True, **schema: Any) -> dict[str, Any]:
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


REQUEST_ID = {"X-Request-Id": _header("Names the request in Headwater's log.")}
LOCATION = {"Location": _header("The path of the new object.")}
IDEMPOTENCY_REPLAYED = {
    idempotency.REPLAYED: _header("`true` when this is the answer of an earlier request.", required=False)
}
IDEMPOTENCY_KEY = {
    "name": idempotency.HEADER,
    "in": "header",
    "required": False,
    "description": "The same request with the same key is done once: sent again within 24 hours, it gets the same "
    "answer. With another body it is refused (422), while the first one runs too (409). Answers 5xx, 429, and those "
    "that refuse the request's form are not remembered.",
    "schema": {"type": "string", "pattern": KEY_PATTERN},
}
ETAG = {"ETag": _header("The revision, in quotes; for If-Match.", pattern='^"[0-9]+"$')}
HEADERS: dict[int, dict[str, Any]] = {
    HTTPStatus.CREATED: LOCATION,
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": _header("Says that an API key is needed.")},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": _header("Seconds to wait.", pattern="^[0-9]+$")},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": _header("Seconds to wait.", pattern="^[0-9]+$")},
}
"""The headers that every response of a status has."""

Responses = dict[int | str, dict[str, Any]]


def failures(*statuses: int) -> Responses:
    """`responses` of a guarded route: its own error statuses, and those that every route has."""
    return {int(status): failure(KIND_OF_STATUS[HTTPStatus(status)]) for status in sorted({*statuses, *EVERYWHERE})}


def body_failures(*statuses: int) -> Responses:
    """`failures` of a route that takes a body."""
    return failures(*statuses, *BODY)


def failure(kind: Kind) -> dict[str, Any]:
    """The response that tells of one kind of problem."""
    example: dict[str, Any] = {
        "type": URN + kind.name,
        "title": kind.title,
        "status": kind.status.value,
        "detail": kind.say or f"{kind.title}. This sentence says what to do.",
        "instance": "/api/v1/flow",
        "request_id": examples.REQUEST_ID,
    }
    if kind.status is HTTPStatus.UNPROCESSABLE_ENTITY:
        example["errors"] = [{"pointer": "/name", "detail": "is required"}]
    return {"description": kind.title, "content": {MEDIA_TYPE: {"schema": SCHEMA, "example": example}}}


def etag(status: int = HTTPStatus.OK) -> Responses:
    """`responses` of a route whose answer carries the revision as its ETag; join it to `failures` with `|`."""
    return {int(status): {"headers": ETAG}}


def describe(app: FastAPI) -> None:
    """Make `app.openapi()` complete, and serve /docs from the files of the swagger wheel."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app)
        return app.openapi_schema

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> Response:
        """The same bytes for everybody: nobody can make the process render or keep a copy for each request."""
        if app.state.description is None:
            app.state.description = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
        return Response(app.state.description, media_type=JSON)

    app.state.description = None
    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description
    app.mount(ASSETS, StaticFiles(directory=str(resources.files("fastapi_swagger") / "resources")))
    app.include_router(router)


def _schema(app: FastAPI) -> dict[str, Any]:
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=tags
    )
    schemas = schema["components"]["schemas"]
    problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["ProblemDetails"] = problem
    for method, operation in _operations(schema):
        _drop_fastapi_errors(operation)
        if SCOPE in operation and method.upper() in idempotency.METHODS:
            _describe_idempotency(operation)
        _complete(operation)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return schema


def _operations(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return (operation for path in schema["paths"].values() for operation in path.items())


def _describe_idempotency(operation: dict[str, Any]) -> None:
    operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    for status, answer in failures(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY).items():
        operation["responses"].setdefault(str(status), answer)
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            answer["headers"] = answer.get("headers", {}) | IDEMPOTENCY_REPLAYED


def _complete(operation: dict[str, Any]) -> None:
    if scope := operation.get(SCOPE):
        and_when_deployed = operation.get(SCOPE_WHEN_DEPLOYED)
        more = f", while it is deployed `{and_when_deployed}` too" if and_when_deployed else ""
        if and_with_prices := operation.get(SCOPE_WITH_PRICES):
            more += f", with a prices sink `{and_with_prices}` too"
        operation["description"] += f"\n\nNeeds the scope `{scope}`{more}."
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            parameter["description"] = PATH_PARAMETERS[parameter["name"]]
    for status, response in operation["responses"].items():
        response["headers"] = REQUEST_ID | HEADERS.get(int(status), {}) | response.get("headers", {})
        if links := LINKS.get(operation["operationId"]) if status.startswith("2") else None:
            response["links"] = links
        if content := response.get("content", {}).get(JSON):
            _add_example(operation["operationId"], content)


def _add_example(operation_id: str, content: dict[str, Any]) -> None:
    schema = content["schema"]
    one = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
    example = examples.OF_OPERATIONS.get(operation_id, examples.OF_SCHEMAS.get(one))
    if example is not None:
        content["example"] = [example] if "items" in schema and one else example


def _drop_fastapi_errors(operation: dict[str, Any]) -> None:
    """FastAPI adds its own form of 422, which never leaves this API."""
    answer = operation["responses"].get("422")
    if answer and JSON in answer["content"]:
        del operation["responses"]["422"]


router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> HTMLResponse:
    """Swagger UI. Its validator badge would call an outside address."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Headwater",
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
        swagger_ui_parameters={"validatorUrl": None},
    )
