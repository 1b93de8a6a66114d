"""All exceptions of Headwater.
The docstring of a class says when it is raised and what the reader should do.

HeadwaterError
├── RequestError                  the request is not possible as it was sent; api/problems.py maps classes to statuses
│   ├── MalformedRequest          400
│   ├── Unauthenticated           401
│   ├── Forbidden                 403
│   ├── QuotaExceeded             403
│   ├── NotFound                  404
│   ├── Conflict                  409
│   │   ├── TeardownInProgress
│   │   ├── ConcurrentUpdate
│   │   └── StoredDataUnreadable
│   ├── PreconditionFailed        412
│   ├── TooLarge                  413
│   ├── UnsupportedMediaType      415
│   ├── InvalidInput              422
│   │   ├── InvalidScript
│   │   └── InvalidExpression
│   └── RateLimited               429
├── Unavailable                   503: a dependency of Headwater is unavailable; send the request again
│   ├── DatabaseUnavailable
│   ├── RedisUnavailable
│   │   ├── RedisEvicts
│   │   └── UploadAborted
│   ├── BrokerUnavailable
│   ├── OrchestratorUnavailable
│   ├── NodeUnavailable
│   │   ├── BlockIncomplete
│   │   ├── NodeBehind
│   │   ├── NodeRateLimited
│   │   └── RequestRejected
│   │       ├── MethodMissing
│   │       └── RangeTooLarge
│   ├── PriceStateUnreadable
│   └── DeployPending
├── LeaseLost                     the controller no longer holds its lease; it stops
├── DeployFailed                  422: the workers of a revision did not become ready
├── SetupError                    a command can't start; the CLI prints the detail and exits with status 2
│   └── DecryptionFailed
├── IngestStopped                 an ingest must stop; the CLI prints the detail and exits with status 2
└── WorkerError                   a worker can't continue; the orchestrator restarts it
    ├── Fenced
    ├── DeliveryFailed
    ├── SourceGap
    └── SandboxFailed
"""

from dataclasses import dataclass


class HeadwaterError(Exception):
    """Base class of all errors that Headwater raises on purpose.
    `str(error)` tells the user what to do.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Fault:
    """One invalid member of a request body: its JSON pointer (RFC 6901) and the reason."""

    pointer: str
    detail: str


class RequestError(HeadwaterError):
    """The request is not possible as it was sent. Change it before you send it again."""


class MalformedRequest(RequestError):
    """The body is not valid JSON, or the connection ended before the whole body arrived."""


class Unauthenticated(RequestError):
    """The request has no API key, or one that is not valid. The detail never says which."""

    def __init__(self) -> None:
        super().__init__("Send a valid API key in the X-API-Key header. `headwater keys create` creates a key.")


class Forbidden(RequestError):
    """The API key is valid, but it lacks a scope that the request needs."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"This API key lacks the scope {scope}. Use a key that has it.")
        self.scope = scope


class QuotaExceeded(RequestError):
    """The owner, or all owners together, would exceed a quota.
    Remove something, or ask the operator.
    """


class NotFound(RequestError):
    """The object does not exist, or belongs to another owner."""


class Conflict(RequestError):
    """The request is not possible in the object's current state."""


class TeardownInProgress(Conflict):
    """The deployment is being torn down. Deploy again when the teardown is complete."""


class ConcurrentUpdate(Conflict):
    """Another request changed the configuration at the same time.
    Read it and send the change again.
    """


class StoredDataUnreadable(Conflict):
    """This version of Headwater can't read the stored configuration.
    Replace it with PUT, or delete it.
    """


class PreconditionFailed(RequestError):
    """If-Match does not name the current revision. Read the object again."""


class TooLarge(RequestError):
    """The body is larger than its limit."""


class UnsupportedMediaType(RequestError):
    """The body is not declared as application/json."""


class InvalidInput(RequestError):
    """The body or a parameter breaks a rule. `faults` has one entry per invalid value.

    Attributes:
        parameter: The query parameter with the first invalid value; empty when that value is not in a parameter.
    """

    def __init__(self, detail: str, faults: list[Fault] | None = None, parameter: str = "") -> None:
        super().__init__(detail)
        self.faults = faults or []
        self.parameter = parameter


class InvalidScript(InvalidInput):
    """A v8 script does not compile or defines no function `process`.
    Lines and columns count from 1.

    Attributes:
        error: The class of the script's error; empty when the detail says everything.
        reason: The message of the script's error; empty when the detail says everything.
    """

    def __init__(
        self, detail: str, line: int | None = None, column: int | None = None, *, error: str = "", reason: str = ""
    ) -> None:
        super().__init__(detail)
        self.line = line
        self.column = column
        self.error = error
        self.reason = reason


class InvalidExpression(InvalidInput):
    """A filter expression can't be parsed. The column counts from 1."""

    def __init__(self, detail: str, column: int) -> None:
        super().__init__(detail)
        self.column = column


class RateLimited(RequestError):
    """Too many requests were sent with this key. Wait `retry_after_s`."""

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(HeadwaterError):
    """A dependency of Headwater is unavailable.
    Send the same request again after `retry_after_s`.
    """

    def __init__(self, detail: str, retry_after_s: int = 2) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class DatabaseUnavailable(Unavailable):
    """The SQL database does not answer, or it was locked for too long."""


class RedisUnavailable(Unavailable):
    """Valkey or Redis does not answer."""


class RedisEvicts(RedisUnavailable):
    """The set store may evict values when its memory is full.
    Headwater neither reads from it nor writes to it.
    """

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"Valkey or Redis has the maxmemory-policy {policy}, so it may evict values without an "
            "error. Set its maxmemory-policy to noeviction."
        )


class UploadAborted(RedisUnavailable):
    """The set was deleted during the upload, or the upload made no progress for an hour.
    The data of the upload was deleted.
    """

    def __init__(self) -> None:
        super().__init__(
            "The set was deleted during this upload, or the upload made no progress for an hour. Nothing was changed. "
            "Send it again."
        )


class BrokerUnavailable(Unavailable):
    """Kafka does not answer, or it rejects Headwater's credentials."""


class OrchestratorUnavailable(Unavailable):
    """The states of the workers can't be read."""


class NodeUnavailable(Unavailable):
    """The node of a blockchain does not answer, or it rejects a request.
    The detail names no URL, as URLs contain keys.

    Attributes:
        retry_after_s: How long the node asks its clients to wait; 0 when it does not say.
    """

    def __init__(self, detail: str, retry_after_s: int = 0) -> None:
        super().__init__(detail, retry_after_s)


class BlockIncomplete(NodeUnavailable):
    """No method of the node returns all logs of a block. Retry later, or ask another node."""


class NodeBehind(NodeUnavailable):
    """The node does not have the block yet. Retry soon, or ask another node."""


class NodeRateLimited(NodeUnavailable):
    """The node limits the rate of requests, or a quota is used up.
    Retry later, or set a lower `--rate`.
    """


class RequestRejected(NodeUnavailable):
    """The node rejects one call repeatedly while it answers other calls.
    Use another method, or another node.
    """


class MethodMissing(RequestRejected):
    """The node does not offer the method. Use another method, or another node."""


class RangeTooLarge(RequestRejected):
    """The node rejects a call because the call or its result is too large.
    Request less in one call.
    """


class PriceStateUnreadable(Unavailable):
    """Another version of Headwater wrote the price state, or it is damaged.
    Use that version, or rebuild the prices.
    """

    def __init__(self) -> None:
        super().__init__(
            "The stored price state can't be read: another version of Headwater wrote it, or it is damaged. "
            "Use that version, or rebuild the prices."
        )


class DeployPending(Unavailable):
    """A deploy or teardown is still in progress.
    Send the request again to wait for it, or read GET …/deploy.
    """


class LeaseLost(HeadwaterError):
    """Another controller holds the lease, or the lease of this controller has expired.
    Nothing was written.
    """

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"This controller no longer holds the lease `{lease}`, so it stops and changes nothing. Another controller "
            "continues; look at its log."
        )


class DeployFailed(HeadwaterError):
    """The workers of a revision did not become ready. The detail says why."""


class SetupError(HeadwaterError):
    """A command can't start. The detail says what to do."""


class DecryptionFailed(SetupError):
    """A stored credential was encrypted with another secret key.

    Only the rows that were encrypted with that key fail; a start fails when no row can be decrypted.
    """

    def __init__(self) -> None:
        super().__init__(
            "The stored credentials can't be decrypted: they were encrypted with another secret key. Put back the "
            "secret-key file that belongs to this database, or set HEADWATER_SECRET_KEY to its content. If the key was "
            "replaced, set HEADWATER_OLD_SECRET_KEY to the previous one."
        )


class IngestStopped(HeadwaterError):
    """An ingest must stop: a retry would fail again or lose records.
    The detail says what to do.
    """


class WorkerError(HeadwaterError):
    """A worker can't continue. It stops without a commit, and the orchestrator starts it again."""


class Fenced(WorkerError):
    """Another worker has the same static member id or owns the partitions.

    Check whether a second controller runs this deployment.
    """


class DeliveryFailed(WorkerError):
    """Kafka rejected records, and a retry would not help.
    Their offsets were not committed, so they are read again.
    """


class SourceGap(WorkerError):
    """The consumer group has no committed offset on its topic, or one that is not valid there.

    A worker never chooses a start offset itself.
    """


class SandboxFailed(WorkerError):
    """The V8 child process can't be started, or its sandbox can't be set up."""


def os_error_reason(error: Exception) -> str:
    """Return why an operation on a file failed, without the path.
    The message names the path itself.
    """
    return (isinstance(error, OSError) and error.strerror) or str(error)
