"""The errors of the client.

HeadwaterError
├── ConfigurationError        no API key was found, or the URL or profile is wrong
├── Ambiguous                 several pipelines have the name
├── ConnectionFailed          no response arrived
│   └── TimedOut              the server did not respond in time
├── UnexpectedResponse        the response is not what the API describes
├── MissingExtra              a method needs a package that is not installed
└── RequestFailed             the server refused the request; `.problem` is its document
    ├── Unauthenticated       401
    ├── NotAllowed            403
    │   └── QuotaExceeded     403; `.used`, `.allowed`
    ├── NotFound              404
    ├── Conflict              409
    │   └── Unreadable        409
    ├── RevisionChanged       412
    ├── Unprocessable         422; `.errors`
    │   └── DeployFailed      422; `.reason`
    ├── RateLimited           429; `.retry_after`
    ├── Unavailable           503; `.retry_after`
    │   └── DeployPending     503
    └── ServerError           another 5xx
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headwater_client.decoding import decode
from headwater_client.problem import Fault, Problem

if TYPE_CHECKING:
    from headwater_client.models.deployment import Deployment

PROBLEM_TYPE = "urn:headwater:problem:"


class HeadwaterError(Exception):
    """Base of all errors of the client."""


class ConfigurationError(HeadwaterError):
    """No API key was found, or the URL or the profile is wrong."""


class Ambiguous(HeadwaterError):
    """Several pipelines have the name.

    Attributes:
        text: The name.
        candidates: The id and the name of each of them.
    """

    def __init__(self, text: str, candidates: Sequence[tuple[str, str]]) -> None:
        super().__init__(text, candidates)
        self.text = text
        self.candidates = candidates

    def __str__(self) -> str:
        count = len(self.candidates)
        return f"{count} pipelines have the name {self.text!r}. Use the id or the external id of one."


class ConnectionFailed(HeadwaterError):
    """The server can't be reached, or the connection ended before the response had arrived."""


class TimedOut(ConnectionFailed):
    """The server did not respond in time. The request may have been executed."""


class UnexpectedResponse(HeadwaterError):
    """The response is not what the API describes. The URL may belong to another server."""


class MissingExtra(HeadwaterError):
    """A method needs a package that is not installed."""


class RequestFailed(HeadwaterError):
    """The server refused the request.

    Attributes:
        problem: The problem document of the response.
        retry_after: The seconds after which the server wants the request to be repeated; None when it does not.
    """

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(problem, retry_after)
        self.problem = problem
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.problem.detail or self.problem.title


class Unauthenticated(RequestFailed):
    """The API key is missing, unknown, expired or revoked."""


class NotAllowed(RequestFailed):
    """The API key lacks a scope, which the message names."""


class QuotaExceeded(NotAllowed):
    """The request would exceed a quota.

    Attributes:
        used: The present usage; None for a quota that all owners share.
        allowed: The limit.
    """

    @property
    def used(self) -> int | None:
        return self.problem.used

    @property
    def allowed(self) -> int | None:
        return self.problem.allowed


class NotFound(RequestFailed):
    """The object does not exist, or belongs to another owner."""


class Conflict(RequestFailed):
    """The request is not possible in the present state of the object."""


class Unreadable(Conflict):
    """The server can't read the stored configuration or deployment, and says what to do."""


class RevisionChanged(RequestFailed):
    """Another client has changed the configuration since it was read. Read it again."""


class Unprocessable(RequestFailed):
    """The request breaks a rule.

    Attributes:
        errors: Each fault, with a JSON pointer into the body.
    """

    @property
    def errors(self) -> list[Fault]:
        return self.problem.errors or []

    def __str__(self) -> str:
        faults = [f"{fault.pointer or 'body'}: {fault.detail}" for fault in self.errors]
        return "\n".join([super().__str__(), *faults])


class DeployFailed(Unprocessable):
    """A deploy, resume or rewind has failed, or the revision was rolled back.

    Attributes:
        reason: Why.
        deployment: The deployment whose rollout failed or was rolled back; None when the request itself has failed.
    """

    deployment: "Deployment | None" = None

    @property
    def reason(self) -> str:
        return self.problem.detail

    def __str__(self) -> str:
        return self.reason


class RateLimited(RequestFailed):
    """A limit on requests, open tails or waiting calls is exceeded; the message says which."""


class Unavailable(RequestFailed):
    """The server, or a service that it needs, is unavailable."""


class DeployPending(Unavailable):
    """A change of a deployment is in progress, such as a deploy, rewind or teardown."""


class ServerError(RequestFailed):
    """The server has failed. Report it with the `request_id` of the problem."""


BY_TYPE: Mapping[str, type[RequestFailed]] = {
    "quota": QuotaExceeded,
    "unreadable": Unreadable,
    "deploy-failed": DeployFailed,
    "deploy-pending": DeployPending,
}
BY_STATUS: Mapping[int, type[RequestFailed]] = {
    401: Unauthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: RevisionChanged,
    422: Unprocessable,
    429: RateLimited,
    503: Unavailable,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> RequestFailed:
    """Return the error for a response with an error status.

    >>> body = b'{"type": "urn:headwater:problem:quota", "status": 403, "used": 9, "allowed": 10}'
    >>> error = error_of(403, {}, body)
    >>> type(error).__name__, error.used, error.allowed
    ('QuotaExceeded', 9, 10)
    """
    problem = _problem(status, body)
    kind = BY_TYPE.get(problem.type.removeprefix(PROBLEM_TYPE)) or BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else RequestFailed
    return kind(problem, _retry_after(headers))


def _problem(status: int, body: bytes) -> Problem:
    """Return the problem document; a proxy's own error has none."""
    try:
        return decode(body, Problem)
    except msgspec.DecodeError:
        text = body[:300].decode("utf-8", "replace").strip()
        return Problem(status=status, title=f"HTTP status {status}", detail=text)


def _retry_after(headers: Mapping[str, Any]) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return None
