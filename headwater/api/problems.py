"""Errors as users see them: `application/problem+json` (RFC 9457). The one table from error families to statuses."""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headwater import errors
from headwater.api.pointers import problems_of
from headwater.errors import HeadwaterError, InvalidInput, MalformedRequest
from headwater.model.dataset import MAX_REPORTED_PROBLEMS

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
URN = "urn:headwater:problem:"


_URI_CHARACTERS = "%:/?#[]@!$&'()*+,;="
"""What a path that was sent keeps: RFC 3986, sections 2.1 and 2.2."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem. say replaces the error's own sentence where that could name a host."""

    status: HTTPStatus
    name: str
    title: str
    say: str = ""


KINDS: dict[type[HeadwaterError], Kind] = {
    errors.MalformedRequest: Kind(HTTPStatus.BAD_REQUEST, "malformed-request", "The request can't be read"),
    errors.Unauthenticated: Kind(HTTPStatus.UNAUTHORIZED, "unauthenticated", "No valid API key"),
    errors.Forbidden: Kind(HTTPStatus.FORBIDDEN, "forbidden", "The API key lacks a scope"),
    errors.QuotaExceeded: Kind(HTTPStatus.FORBIDDEN, "quota", "A quota is used up"),
    errors.NotFound: Kind(HTTPStatus.NOT_FOUND, "not-found", "Not found"),
    errors.Conflict: Kind(HTTPStatus.CONFLICT, "conflict", "Not possible in the present state"),
    errors.Unreadable: Kind(HTTPStatus.CONFLICT, "unreadable", "What is stored can't be read"),
    errors.PreconditionFailed: Kind(HTTPStatus.PRECONDITION_FAILED, "precondition-failed", "Changed meanwhile"),
    errors.TooLarge: Kind(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "The body is too large"),
    errors.UnsupportedMediaType: Kind(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body is not declared as JSON"
    ),
    errors.InvalidInput: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", "The request breaks a rule"),
    errors.RateLimited: Kind(HTTPStatus.TOO_MANY_REQUESTS, "rate-limited", "Too many requests"),
    errors.DeployFailed: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "deploy-failed", "The workers did not become ready"),
    errors.DeployPending: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "deploy-pending", "Deployment in progress"),
    errors.StoreUnavailable: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "store-unavailable",
        "The database is away",
        "The database does not answer. Send the same request again.",
    ),
    errors.SetStoreUnavailable: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "set-store-unavailable",
        "The set store is away",
        "The store of sets does not answer. Send the same request again.",
    ),
    errors.Superseded: Kind(HTTPStatus.SERVICE_UNAVAILABLE, "superseded", "The upload was overtaken"),
    errors.BrokerUnavailable: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "broker-unavailable",
        "Kafka is away",
        "Kafka does not answer. Send the same request again.",
    ),
    errors.SandboxFailed: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "sandbox-unavailable",
        "Scripts can't be checked now",
        "The sandbox that checks scripts could not be started. Send the same request again.",
    ),
    errors.Unavailable: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unavailable",
        "Dependency unavailable",
        "Something that Headwater depends on does not answer. Send the same request again.",
    ),
}
INTERNAL = Kind(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "internal-error",
    "Headwater failed",
    "This is a fault of Headwater, and it was logged. Report it with the request_id.",
)
METHOD_NOT_ALLOWED = Kind(
    HTTPStatus.METHOD_NOT_ALLOWED,
    "method-not-allowed",
    "No such method here",
    "This address does not take this method; the Allow header lists those that it takes.",
)
NO_SUCH_ADDRESS = "There is nothing at this address. GET /openapi.json describes all addresses."
RETRY_AFTER_S = 2
FILE_METHODS = "GET, HEAD"
MAX_SHOWN_CHARS = 60
"""A sentence names a longer query parameter by its beginning."""


@dataclass(slots=True)
class Answer:
    """A problem on its way out."""

    kind: Kind
    detail: str
    headers: dict[str, str] = field(default_factory=dict)
    members: dict[str, Any] = field(default_factory=dict)

    def response(self, request: Request) -> Response:
        """The response to a request."""
        body = {
            "type": URN + self.kind.name,
            "title": self.kind.title,
            "status": self.kind.status.value,
            "detail": self.detail,
            "instance": quote(request.scope["raw_path"], _URI_CHARACTERS),
            "request_id": request.scope.get("request_id", ""),
            **self.members,
        }
        return Response(msgspec.json.encode(body), self.kind.status, self.headers, MEDIA_TYPE)


def internal_error() -> Answer:
    """What a user sees of an unexpected exception."""
    return Answer(INTERNAL, INTERNAL.say)


def answer_of(error: HeadwaterError) -> Answer:
    """The problem that tells a user of an error."""
    kind = next((KINDS[c] for c in type(error).__mro__ if c in KINDS), None)
    if kind is None:
        log.error("an error has no status", exc_info=error)
        return internal_error()
    answer = Answer(kind, kind.say or error.detail)
    if kind.say:
        log.warning("request refused", reason=error.detail, problem=kind.name)
    if isinstance(error, InvalidInput):
        answer.detail = _with_first_fault(error)
        answer.members["errors"] = error.problems
    if isinstance(error, errors.DeployFailed):
        answer.members["errors"] = [errors.Problem("", error.detail)]
    if isinstance(error, errors.Unauthenticated):
        answer.headers["WWW-Authenticate"] = 'ApiKey realm="headwater"'
    if kind.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        answer.headers["Retry-After"] = str(getattr(error, "retry_after_s", RETRY_AFTER_S))
    return answer


def _with_first_fault(error: InvalidInput) -> str:
    """Clients that read only `detail` must learn what is wrong too."""
    if not error.problems:
        return error.detail
    first = error.problems[0]
    subject = _parameter(error.parameter) if error.parameter else first.pointer or "The body"
    return f"{error.detail} {subject} {first.detail.rstrip('.')}.{_how_many(len(error.problems))}"


def _parameter(name: str) -> str:
    """A query parameter as a sentence names it."""
    shown = name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}…"
    return f"The query parameter {json.dumps(shown, ensure_ascii=False)}"


def _how_many(problems: int) -> str:
    if problems <= 1:
        return ""
    number = f"at least {problems} faults" if problems >= MAX_REPORTED_PROBLEMS else f"{problems} faults in all"
    return f" There are {number}; see errors."


def _http_answer(request: Request, error: HTTPException) -> Answer:
    # FastAPI wraps what the reading of a body raises.
    if isinstance(error.__cause__, HeadwaterError):
        return answer_of(error.__cause__)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return answer_of(errors.NotFound(NO_SUCH_ADDRESS))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return Answer(METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED.say, {"Allow": _allowed(request)})
    return answer_of(MalformedRequest("The request can't be read; its body may have broken off. Send it again."))


def _allowed(request: Request) -> str:
    """All methods at an address: Starlette names those of its first route only, and there is one route per method.

    Where there is no route there is a file.
    """
    here = {"type": "http", "path": request.url.path, "root_path": "", "method": request.method}
    routes = [r for r in request.app.state.routes if r.matches(here)[0] is not Match.NONE]
    methods = {method for route in routes for method in route.methods}
    return ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods)) or FILE_METHODS


def _validation_answer(error: RequestValidationError) -> Answer:
    faults = error.errors()
    if error.body is None and any(fault["loc"] == ("body",) for fault in faults):
        return answer_of(MalformedRequest("The body is empty. Send JSON as the description of the endpoint shows it."))
    place, *names = faults[0]["loc"]
    parameter = str(names[0]) if place == "query" and names else ""
    return answer_of(InvalidInput("The request was refused.", problems_of(faults), parameter))


def install(app: FastAPI) -> None:
    """Let every error that a route raises leave as a problem."""

    @app.exception_handler(HeadwaterError)
    async def headwater(request: Request, error: HeadwaterError) -> Response:
        return answer_of(error).response(request)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return _http_answer(request, error).response(request)

    @app.exception_handler(RequestValidationError)
    async def validation(request: Request, error: RequestValidationError) -> Response:
        return _validation_answer(error).response(request)
