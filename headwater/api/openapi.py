"""The API's description: errors, security and examples, and a page that shows it without any outside address."""

from http import HTTPStatus
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from headwater.api.problems import KINDS, MEDIA_TYPE, METHOD_NOT_ALLOWED
from headwater.api.schemas import ProblemDetails

ASSETS = "/docs/assets"
SCHEMA = {"$ref": "#/components/schemas/ProblemDetails"}
TITLES = {kind.status: kind.title for kind in reversed((*KINDS.values(), METHOD_NOT_ALLOWED))}
EVERYWHERE = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE)
BODY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

Responses = dict[int | str, dict[str, Any]]


def failures(*statuses: int) -> Responses:
    """`responses` of a guarded route: its own error statuses, and those that every route has."""
    content = {MEDIA_TYPE: {"schema": SCHEMA}}
    return {
        int(status): {"description": TITLES[HTTPStatus(status)], "content": content}
        for status in sorted({*statuses, *EVERYWHERE})
    }


def body_failures(*statuses: int) -> Responses:
    """`failures` of a route that takes a body."""
    return failures(*statuses, *BODY)


def describe(app: FastAPI) -> None:
    """Make `app.openapi()` complete, and serve /docs from the files of the swagger wheel."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description
    app.mount(ASSETS, StaticFiles(directory=str(resources.files("fastapi_swagger") / "resources")))
    app.include_router(router)


def _schema(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = schema["components"]["schemas"]
    problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["ProblemDetails"] = problem
    for path in schema["paths"].values():
        for operation in path.values():
            _drop_fastapi_errors(operation)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return schema


def _drop_fastapi_errors(operation: dict[str, Any]) -> None:
    """FastAPI adds its own form of 422, which never leaves this API."""
    answer = operation["responses"].get("422")
    if answer and "application/json" in answer["content"]:
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
