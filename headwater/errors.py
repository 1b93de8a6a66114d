"""The one exception tree. The docstring of a class says when it is raised and what the reader should do.

HeadwaterError
├── RequestError                  the caller's request can't be done as it stands; api/problems.py maps each to a status
│   ├── MalformedRequest          400
│   ├── Unauthenticated           401
│   ├── Forbidden                 403
│   ├── QuotaExceeded             403
│   ├── NotFound                  404
│   ├── Conflict                  409
│   │   ├── TeardownGoesOn
│   │   ├── SavedMeanwhile
│   │   └── Unreadable
│   ├── PreconditionFailed        412
│   ├── TooLarge                  413
│   ├── UnsupportedMediaType      415
│   ├── InvalidInput              422
│   │   ├── ScriptRefused
│   │   └── ExpressionRefused
│   └── RateLimited               429
├── Unavailable                   503: something Headwater depends on is away; try again
│   ├── StoreUnavailable
│   ├── SetStoreUnavailable
│   │   ├── SetStoreEvicts
│   │   └── Superseded
│   ├── BrokerUnavailable
│   ├── OrchestratorUnavailable
│   ├── NodeUnavailable
│   │   ├── BlockIncomplete
│   │   ├── NodeBehind
│   │   ├── NodeBusy
│   │   └── RequestRefused
│   │       ├── MethodMissing
│   │       └── RangeTooLarge
│   ├── PriceStateUnreadable
│   └── DeployPending
├── LeaseLost                     a controller acts on a lease that another one holds by now; it ends
├── DeployFailed                  422: the workers of a revision did not become ready
├── SetupError                    a command can't start; the CLI prints the sentence and exits with status 2
│   └── SealBroken
├── IngestStopped                 an ingest can't go on by itself; the CLI prints the sentence and exits with status 2
└── WorkerError                   inside a worker; the supervisor restarts it
    ├── Fenced
    ├── DeliveryFailed
    ├── SourceGap
    └── SandboxFailed
"""

from dataclasses import dataclass


class HeadwaterError(Exception):
    """Base of all errors that Headwater raises on purpose. `str(error)` is a sentence for the reader."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a request body: a JSON pointer (RFC 6901) and a sentence."""

    pointer: str
    detail: str


class RequestError(HeadwaterError):
    """The request can't be done as it stands. Change it before sending it again."""


class MalformedRequest(RequestError):
    """The body is no JSON, or it broke off."""


class Unauthenticated(RequestError):
    """No API key, or one that is not valid. The detail never says which."""

    def __init__(self) -> None:
        super().__init__("Send a valid API key in the X-API-Key header. Keys are made with `headwater keys create`.")


class Forbidden(RequestError):
    """The API key is valid but lacks a scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"This API key lacks the scope {scope}. Use a key that has it.")
        self.scope = scope


class QuotaExceeded(RequestError):
    """The owner, or all owners together, would have more than a quota allows. Remove something, or ask the operator."""


class NotFound(RequestError):
    """The object does not exist, or belongs to another owner."""


class Conflict(RequestError):
    """The object's state does not allow this."""


class TeardownGoesOn(Conflict):
    """A deployment is being torn down. Deploy again when it is gone."""


class SavedMeanwhile(Conflict):
    """Another request saved the configuration between the reading and the saving. Read it and send the change again."""


class Unreadable(Conflict):
    """This version of Headwater can't read what is stored. Save it anew with PUT, or delete it."""


class PreconditionFailed(RequestError):
    """If-Match names another revision than the current one. Read the object again."""


class TooLarge(RequestError):
    """The body is over its limit."""


class UnsupportedMediaType(RequestError):
    """The body is not declared as application/json."""


class InvalidInput(RequestError):
    """The body or a parameter breaks a rule. `problems` has one entry per fault.

    Attributes:
        parameter: The query parameter that the first fault is in; empty when it is not in one.
    """

    def __init__(self, detail: str, problems: list[Problem] | None = None, parameter: str = "") -> None:
        super().__init__(detail)
        self.problems = problems or []
        self.parameter = parameter


class ScriptRefused(InvalidInput):
    """A v8 script does not compile or defines no function `process`. Lines and columns count from 1.

    error, reason: the class and the message of what went wrong; empty when the detail says all.
    """

    def __init__(
        self, detail: str, line: int | None = None, column: int | None = None, *, error: str = "", reason: str = ""
    ) -> None:
        super().__init__(detail)
        self.line = line
        self.column = column
        self.error = error
        self.reason = reason


class ExpressionRefused(InvalidInput):
    """A filter expression does not parse. The column counts from 1."""

    def __init__(self, detail: str, column: int) -> None:
        super().__init__(detail)
        self.column = column


class RateLimited(RequestError):
    """Too many requests with this key. Wait `retry_after_s`."""

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(HeadwaterError):
    """Something Headwater depends on is away. Send the same request again after `retry_after_s`."""

    def __init__(self, detail: str, retry_after_s: int = 2) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class StoreUnavailable(Unavailable):
    """The SQL database does not answer, or is locked for too long."""


class SetStoreUnavailable(Unavailable):
    """Valkey or Redis does not answer."""


class SetStoreEvicts(SetStoreUnavailable):
    """The set store may evict values when its memory is full. Nothing is read from it or written to it."""

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"The set store (Valkey or Redis) has the maxmemory-policy {policy} and may evict values, which would then "
            "be missing without an error. Set its maxmemory-policy to noeviction."
        )


class Superseded(SetStoreUnavailable):
    """The set was removed under an upload, or the upload stood still for so long that another one removed it."""

    def __init__(self) -> None:
        super().__init__(
            "The set was removed, or this upload stood still for an hour; nothing was changed. Send it again."
        )


class BrokerUnavailable(Unavailable):
    """Kafka does not answer, or refuses our credentials."""


class OrchestratorUnavailable(Unavailable):
    """The workers' states can't be read."""


class NodeUnavailable(Unavailable):
    """A chain's node does not answer, or refuses a request. The detail names no URL: those carry keys.

    retry_after_s: how long the node wants to be left alone; 0 when it did not say.
    """

    def __init__(self, detail: str, retry_after_s: int = 0) -> None:
        super().__init__(detail, retry_after_s)


class BlockIncomplete(NodeUnavailable):
    """No method of a node gives all logs of a block. Ask again later, or ask another node."""


class NodeBehind(NodeUnavailable):
    """A node does not have a block yet. Ask again soon, or ask another node."""


class NodeBusy(NodeUnavailable):
    """A node limits the rate of requests, or a quota is used up. Ask later, or set a lower `--rate`."""


class RequestRefused(NodeUnavailable):
    """A node refuses one call again and again, and answers others. Use another method, or another node."""


class MethodMissing(RequestRefused):
    """A node does not offer a method. Use another method, or another node."""


class RangeTooLarge(RequestRefused):
    """A node refuses a call because the call, or its result, is too large. Ask for less at once."""


class PriceStateUnreadable(Unavailable):
    """Another version of Headwater wrote the price state, or it is damaged. Use that version, or build prices anew."""

    def __init__(self) -> None:
        super().__init__(
            "The stored price state can't be read: another version of Headwater wrote it, or it is damaged. "
            "Use that version, or build the prices anew."
        )


class DeployPending(Unavailable):
    """A deploy or teardown still goes on. Ask again, or read GET …/deploy."""


class LeaseLost(HeadwaterError):
    """Another controller holds the lease, or this one's has run out. Nothing was written."""

    def __init__(self, lease: str) -> None:
        super().__init__(f"This process does not hold the lease `{lease}` any more, so it changes nothing.")


class DeployFailed(HeadwaterError):
    """The workers of a revision did not become ready. The detail says why."""


class SetupError(HeadwaterError):
    """A command can't start. The sentence says what to do."""


class SealBroken(SetupError):
    """Something stored was sealed with another secret key. Only its own row fails, unless nothing opens at all."""

    def __init__(self) -> None:
        super().__init__(
            "The stored credentials can't be opened: they were sealed with another secret key. Put back the "
            "secret-key file that belongs to this database, or set HEADWATER_SECRET_KEY to its content."
        )


class IngestStopped(HeadwaterError):
    """Trying again would not help an ingest, or would lose records. The sentence says what to do."""


class WorkerError(HeadwaterError):
    """A worker can't go on. It stops without committing, and its supervisor starts it again."""


class Fenced(WorkerError):
    """Another worker took this one's place, or has its partitions. Look whether another controller runs it."""


class DeliveryFailed(WorkerError):
    """Kafka refused records for good. Nothing was committed since; they are read again."""


class SourceGap(WorkerError):
    """The group has no position on its topic, or one that means nothing there. No worker chooses where it starts."""


class SandboxFailed(WorkerError):
    """The V8 child can't be started or locked."""


def reason_of(error: Exception) -> str:
    """Why an operation on a file failed, without the file's path, for a sentence that names the path itself."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
