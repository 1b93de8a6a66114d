"""Problem documents: errors as users see them (`application/problem+json`, RFC 9457).

PROBLEM_TYPES is the only table from error classes to statuses.
"""

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from headwater import errors
from headwater.api.faults import faults_of
from headwater.errors import HeadwaterError, InvalidInput, MalformedRequest
from headwater.model.value_sets import MAX_REPORTED_FAULTS

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
URN = "urn:headwater:problem:"

_URI_CHARACTERS = "%:/?#[]@!$&'()*+,;="
"""The characters that are not percent-encoded in `instance` (RFC 3986, sections 2.1 and 2.2)."""


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One type of problem document.

    Attributes:
        name: The last part of the document's `type`.
        public_detail: The sentence that replaces the error's own sentence, which could reveal a host name. It is empty
            when the document shows the error's own sentence.
    """

    status: HTTPStatus
    name: str
    title: str
    public_detail: str = ""


# The names are a part of the API and can't be changed: `store-unavailable` means only the database, and
# `set-store-unavailable` means Valkey or Redis, which holds more than sets.
PROBLEM_TYPES: dict[type[HeadwaterError], ProblemType] = {
    errors.MalformedRequest: ProblemType(HTTPStatus.BAD_REQUEST, "malformed-request", "The request can't be read"),
    errors.Unauthenticated: ProblemType(HTTPStatus.UNAUTHORIZED, "unauthenticated", "No valid API key"),
    errors.InvalidSignInCode: ProblemType(HTTPStatus.UNAUTHORIZED, "invalid-sign-in-code", "No valid sign-in code"),
    errors.Forbidden: ProblemType(HTTPStatus.FORBIDDEN, "forbidden", "The API key lacks a scope"),
    errors.QuotaExceeded: ProblemType(HTTPStatus.FORBIDDEN, "quota", "Quota exceeded"),
    errors.NotFound: ProblemType(HTTPStatus.NOT_FOUND, "not-found", "Not found"),
    errors.Conflict: ProblemType(HTTPStatus.CONFLICT, "conflict", "Not possible in the current state"),
    errors.StoredDataUnreadable: ProblemType(
        HTTPStatus.CONFLICT, "unreadable", "The stored configuration can't be read"
    ),
    errors.PreconditionFailed: ProblemType(
        HTTPStatus.PRECONDITION_FAILED, "precondition-failed", "The revision has changed"
    ),
    errors.TooLarge: ProblemType(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "The body is too large"),
    errors.UnsupportedMediaType: ProblemType(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The format of the body is not supported"
    ),
    errors.InvalidInput: ProblemType(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", "The request breaks a rule"),
    errors.RateLimited: ProblemType(HTTPStatus.TOO_MANY_REQUESTS, "rate-limited", "Too many requests"),
    errors.DeployFailed: ProblemType(
        HTTPStatus.UNPROCESSABLE_ENTITY, "deploy-failed", "The workers did not become ready"
    ),
    errors.DeployPending: ProblemType(HTTPStatus.SERVICE_UNAVAILABLE, "deploy-pending", "Deployment in progress"),
    errors.Overloaded: ProblemType(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "Too many requests at the same time"),
    errors.ApiStopping: ProblemType(HTTPStatus.SERVICE_UNAVAILABLE, "api-stopping", "The API process is stopping"),
    errors.DatabaseUnavailable: ProblemType(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "store-unavailable",
        "Database unavailable",
        "The database does not answer. Send the same request again.",
    ),
    errors.RedisUnavailable: ProblemType(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "set-store-unavailable",
        "Valkey or Redis unavailable",
        "Valkey or Redis does not answer. Send the same request again.",
    ),
    errors.UploadAborted: ProblemType(HTTPStatus.SERVICE_UNAVAILABLE, "superseded", "The upload was aborted"),
    errors.BrokerUnavailable: ProblemType(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "broker-unavailable",
        "Kafka unavailable",
        "Kafka does not answer. Send the same request again.",
    ),
    errors.SandboxFailed: ProblemType(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "sandbox-unavailable",
        "Scripts can't be checked now",
        "The sandbox that checks and runs scripts does not work at the moment. Send the same request again.",
    ),
    errors.PriceStateUnreadable: ProblemType(
        HTTPStatus.CONFLICT, "price-state-unreadable", "The stored price state can't be read"
    ),
    errors.ValuesBeingRemoved: ProblemType(
        HTTPStatus.SERVICE_UNAVAILABLE, "values-being-removed", "Expired values are being removed"
    ),
    errors.Unavailable: ProblemType(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unavailable",
        "Dependency unavailable",
        "A dependency of Headwater is unavailable. Send the same request again.",
    ),
}
INTERNAL_ERROR = ProblemType(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "internal-error",
    "Internal error",
    "This is an error of Headwater, and it was logged. Report it with the request_id.",
)
INTERRUPTED = ProblemType(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "interrupted",
    "The request was interrupted",
    "This process of the API has stopped before the request ended. Read what the request has changed before you send "
    "it again.",
)
METHOD_NOT_ALLOWED = ProblemType(
    HTTPStatus.METHOD_NOT_ALLOWED,
    "method-not-allowed",
    "Method not allowed",
    "This path does not support this method; the Allow header lists the methods that it supports.",
)
NO_SUCH_PATH = "There is no resource at this path. GET /openapi.json lists all paths."
TRAILING_SLASH = (
    "There is no resource at this path, which ends with a slash. Send the path without the slash at its end; "
    "GET /openapi.json lists all paths."
)
RETRY_AFTER_S = 2
STATIC_FILE_METHODS = "GET, HEAD"
MAX_NAME_CHARS_IN_DETAIL = 60
"""Longer names of query parameters are cut to this length in `detail`."""


@dataclass(slots=True)
class ProblemResponse:
    """A problem document that is about to be sent.

    Attributes:
        members: The members of the document in addition to the members of every problem document.
    """

    problem_type: ProblemType
    detail: str
    headers: dict[str, str] = field(default_factory=dict)
    members: dict[str, Any] = field(default_factory=dict)

    def response(self, request: Request) -> Response:
        """Return the response to a request."""
        body = {
            "type": URN + self.problem_type.name,
            "title": self.problem_type.title,
            "status": self.problem_type.status.value,
            "detail": self.detail,
            "instance": quote(request.scope["raw_path"], _URI_CHARACTERS),
            "request_id": request.scope.get("request_id", ""),
            **self.members,
        }
        return Response(msgspec.json.encode(body), self.problem_type.status, self.headers, MEDIA_TYPE)


def interrupted() -> ProblemResponse:
    """Return the problem document for a request whose process stopped before it ended.

    Its status is not 503, since programs send such a request again at once, and parts of this one may still run.
    """
    return ProblemResponse(INTERRUPTED, INTERRUPTED.public_detail)


def internal_error() -> ProblemResponse:
    """Return the problem document for an unexpected exception."""
    return ProblemResponse(INTERNAL_ERROR, INTERNAL_ERROR.public_detail)


def problem_response_of(error: HeadwaterError) -> ProblemResponse:
    """Return the problem document for an error."""
    problem_type = next((PROBLEM_TYPES[cls] for cls in type(error).__mro__ if cls in PROBLEM_TYPES), None)
    if problem_type is None:
        log.error("an error has no problem type", exc_info=error)
        return internal_error()
    problem = ProblemResponse(problem_type, problem_type.public_detail or error.detail)
    if problem_type.public_detail:
        log.warning("request failed: a dependency is unavailable", reason=error.detail, problem=problem_type.name)
    if isinstance(error, InvalidInput):
        problem.detail = _with_first_fault(error)
        problem.members["errors"] = error.faults
    if isinstance(error, errors.QuotaExceeded):
        problem.members |= {"used": error.used, "allowed": error.allowed}
    if isinstance(error, errors.DeployFailed):
        problem.members["errors"] = [errors.Fault("", error.detail)]
    if isinstance(error, errors.Unauthenticated):
        problem.headers["WWW-Authenticate"] = 'ApiKey realm="headwater"'
    if problem_type.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        problem.headers["Retry-After"] = str(getattr(error, "retry_after_s", RETRY_AFTER_S))
    return problem


def _with_first_fault(error: InvalidInput) -> str:
    """Return the error's sentence with its first fault, for clients that read only `detail`."""
    if not error.faults:
        return error.detail
    first = error.faults[0]
    subject = _parameter(error.parameter) if error.parameter else first.pointer or "The body"
    return f"{error.detail} {subject} {first.detail.rstrip('.')}.{_fault_count(len(error.faults))}"


def _parameter(name: str) -> str:
    """Return the subject of a sentence about a query parameter."""
    shown = name if len(name) <= MAX_NAME_CHARS_IN_DETAIL else f"{name[:MAX_NAME_CHARS_IN_DETAIL]}…"
    return f"The query parameter {json.dumps(shown, ensure_ascii=False)}"


def _fault_count(count: int) -> str:
    """Return the sentence that says how many faults there are; empty when there is only one."""
    if count <= 1:
        return ""
    faults = f"at least {count} faults" if count >= MAX_REPORTED_FAULTS else f"{count} faults in all"
    return f" There are {faults}; see errors."


def _http_problem(error: HTTPException, path: str) -> ProblemResponse:
    # When reading the body raises an exception, FastAPI raises an HTTPException from it.
    if isinstance(error.__cause__, HeadwaterError):
        return problem_response_of(error.__cause__)
    if error.status_code == HTTPStatus.NOT_FOUND:
        has_trailing_slash = path != "/" and path.endswith("/")
        return problem_response_of(errors.NotFound(TRAILING_SLASH if has_trailing_slash else NO_SUCH_PATH))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return ProblemResponse(METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED.public_detail, {"Allow": _allowed_methods(error)})
    return problem_response_of(
        MalformedRequest(
            "The request can't be read; the connection may have ended before the whole body had arrived. Send it again."
        )
    )


def _allowed_methods(error: HTTPException) -> str:
    """Return the methods that the path supports.

    The error of Starlette's StaticFiles does not name these methods.
    """
    return (error.headers or {}).get("Allow", STATIC_FILE_METHODS)


def _validation_problem(error: RequestValidationError, *, is_union_body: bool) -> ProblemResponse:
    pydantic_errors = error.errors()
    if error.body is None and any(fault["loc"] == ("body",) for fault in pydantic_errors):
        detail = "The body is empty. Send JSON as the description of the endpoint shows it."
        return problem_response_of(MalformedRequest(detail))
    location, *names = pydantic_errors[0]["loc"]
    parameter = str(names[0]) if location == "query" and names else ""
    faults = faults_of(pydantic_errors, is_union_body=is_union_body)
    return problem_response_of(InvalidInput("The request was refused.", faults, parameter))


def _has_union_body(route: object) -> bool:
    """Whether the body of a route is one of several types of objects."""
    field_ = route.body_field if isinstance(route, APIRoute) else None
    return field_ is not None and not isinstance(field_.field_info.annotation, type)


def install(app: FastAPI) -> None:
    """Register exception handlers that turn every error of a route into a problem document."""

    @app.exception_handler(HeadwaterError)
    async def headwater(request: Request, error: HeadwaterError) -> Response:
        return problem_response_of(error).response(request)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return _http_problem(error, request.scope["path"]).response(request)

    @app.exception_handler(RequestValidationError)
    async def validation(request: Request, error: RequestValidationError) -> Response:
        is_union_body = _has_union_body(request.scope.get("route"))
        return _validation_problem(error, is_union_body=is_union_body).response(request)
