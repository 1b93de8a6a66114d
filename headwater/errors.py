"""The exceptions of Headwater, except those that stay inside one part of the program.

An exception that one part raises and catches itself, such as `BadTick`, is defined beside the code that raises it. The
docstring of a class says when the exception is raised, and what the user should do about it.

HeadwaterError
├── RequestError                  the request is not possible as it was sent; api/problems.py has the HTTP statuses
│   ├── MalformedRequest          400
│   ├── Unauthenticated           401
│   │   └── InvalidSignInCode
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
├── Unavailable                   503: not possible now, send the same request again; node errors never reach HTTP
│   ├── DatabaseUnavailable
│   ├── RedisUnavailable
│   │   ├── RedisEvicts
│   │   └── UploadAborted
│   ├── BrokerUnavailable
│   │   └── TopicMissing
│   ├── OrchestratorUnavailable
│   ├── NodeError                 raised only in ingests, which wait and then continue
│   │   ├── NodeUnavailable
│   │   │   └── IngestCancelled
│   │   ├── BlockIncomplete
│   │   ├── NodeBehind
│   │   ├── NodeRateLimited
│   │   └── NodeCallFailed
│   │       ├── NodeMethodMissing
│   │       └── NodeCallTooLarge
│   ├── Overloaded
│   ├── ApiStopping
│   ├── PriceStateUnreadable      409: the same request fails again until the prices are readable
│   ├── ValuesBeingRemoved
│   └── DeployPending
├── LeaseLost                     the controller no longer holds its lease; it stops
├── DeployFailed                  422: a deploy, resume or rewind has failed
│   └── BrokerUnsuitable          at the start of a process, it is raised as SetupError instead
├── SetupError                    a command can't start; the CLI prints the detail and exits with status 2
│   └── DecryptionFailed
├── IngestStopped                 an ingest must stop; the CLI prints the detail and exits with status 2
└── WorkerError                   a worker can't continue; it ends, and the orchestrator starts it again
    ├── Fenced
    ├── TransactionFailed
    ├── NoValidOffset
    └── SandboxFailed             503 when the API, which also runs scripts in trials, raises it
"""

from dataclasses import dataclass


class HeadwaterError(Exception):
    """Base class of the exceptions in this module.

    `str(error)` is the detail: it says what is wrong, and what the user should do.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Fault:
    """A message about a value in a request: why the value is invalid, or a warning.

    Attributes:
        pointer: The JSON pointer (RFC 6901) to the value in the body; `/<name>` for a query parameter or a header.
        detail: What is wrong with the value, or what the user should know about it.
    """

    pointer: str
    detail: str


class RequestError(HeadwaterError):
    """The request is not possible as it was sent, or not yet. The detail says what to do."""


class MalformedRequest(RequestError):
    """The body is not valid JSON, or the connection ended before the whole body arrived."""


class Unauthenticated(RequestError):
    """The request has no API key, or an invalid one. The detail does not say which of the two."""

    def __init__(
        self, detail: str = "Send a valid API key in the X-API-Key header. `headwater keys create` creates a key."
    ) -> None:
        super().__init__(detail)


class InvalidSignInCode(Unauthenticated):
    """The one-time code is unknown, was used, or has expired.

    The detail does not say which. Open a new link: `headwater keys sign-in-link` prints one.
    """

    def __init__(self) -> None:
        super().__init__(
            "This sign-in code is not valid: a code works once, within 60 s. Print a new link with "
            "`headwater keys sign-in-link`, or sign in with an API key."
        )


class Forbidden(RequestError):
    """The API key is valid, but it lacks a scope that the request needs.

    Use a key with this scope.
    """

    def __init__(self, scope: str) -> None:
        super().__init__(f"This API key lacks the scope {scope}. Use a key that has it.")
        self.scope = scope


class QuotaExceeded(RequestError):
    """The owner, or all owners together, would exceed a quota.

    Remove something that counts towards the quota, or ask the operator for a larger one.

    Attributes:
        used: The usage of the owner; None for a quota of all owners, whose usage is not revealed.
        allowed: The limit.
    """

    def __init__(self, detail: str, used: int | None, allowed: int) -> None:
        super().__init__(detail)
        self.used = used
        self.allowed = allowed


class NotFound(RequestError):
    """The object does not exist, or belongs to another owner."""


class Conflict(RequestError):
    """The request is not possible in the object's current state."""


class TeardownInProgress(Conflict):
    """The deployment is being torn down. Deploy again when the teardown is complete."""


class ConcurrentUpdate(Conflict):
    """Another request changed the configuration at the same time.

    Read the configuration, and send the change again.
    """


class StoredDataUnreadable(Conflict):
    """This version of Headwater can't read the stored configuration or its deployment.

    The detail says what to do.
    """


class PreconditionFailed(RequestError):
    """If-Match does not name the current revision. Read the object again."""


class TooLarge(RequestError):
    """The body is larger than its limit."""


class UnsupportedMediaType(RequestError):
    """The Content-Type of the request is not application/json, or its body is compressed."""


class InvalidInput(RequestError):
    """The body or a parameter of the request has an invalid value.

    Attributes:
        faults: One entry for each invalid value in the request.
        parameter: The query parameter with the first invalid value; empty when that value is not in a parameter.
    """

    def __init__(self, detail: str, faults: list[Fault] | None = None, parameter: str = "") -> None:
        super().__init__(detail)
        self.faults = faults or []
        self.parameter = parameter


class InvalidScript(InvalidInput):
    """A v8 script does not compile, can't be loaded, or defines no function `process`.

    Attributes:
        line: The line of the error, from 1; None when the error has no position in the script.
        column: The column of the error, from 1.
        error: The class of the JavaScript error; empty when the script did not throw one.
        reason: The message of the JavaScript error; empty when the script did not throw one.
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
    """A filter expression can't be parsed.

    Attributes:
        column: The column of the error, from 1.
    """

    def __init__(self, detail: str, column: int) -> None:
        super().__init__(detail)
        self.column = column


class RateLimited(RequestError):
    """A limit on requests, open tails or waiting calls is exceeded.

    Wait `retry_after_s` seconds, and send the request again.
    """

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(HeadwaterError):
    """The request is not possible now, often because a dependency is unavailable.

    Send the same request again after `retry_after_s` seconds.
    """

    def __init__(self, detail: str, retry_after_s: int = 2) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class DatabaseUnavailable(Unavailable):
    """The SQL database does not answer, or it was locked for too long."""


class RedisUnavailable(Unavailable):
    """Valkey or Redis does not answer."""


class RedisEvicts(RedisUnavailable):
    """Valkey or Redis may evict values when its memory is full.

    Headwater then sends it no commands, neither reads nor writes.
    """

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"Valkey or Redis has the maxmemory-policy {policy}, so it may evict values without an "
            "error. Set its maxmemory-policy to noeviction."
        )


class UploadAborted(RedisUnavailable):
    """The set was deleted during the upload, or the upload made no progress for an hour.

    The upload changed no set. Send the upload again.
    """

    def __init__(self) -> None:
        super().__init__(
            "The set was deleted during this upload, or the upload made no progress for an hour. This upload "
            "changed no set. Send the upload again."
        )


class BrokerUnavailable(Unavailable):
    """Kafka does not answer, or it rejects Headwater's credentials."""


class TopicMissing(BrokerUnavailable):
    """A topic does not exist. It may appear when the deployment that owns it is ready."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"The topic {topic} does not exist.")


class OrchestratorUnavailable(Unavailable):
    """The orchestrator or the controller does not work.

    The orchestrator is unavailable, or no controller is running, or a part of the controller's work fails. The detail
    says which.
    """


class NodeError(Unavailable):
    """An error of the node of a blockchain: an outage, or an error about one request.

    Only ingests, the processes that read a node and write streams, raise the subclasses, so these never become a 503.
    The detail names no URL, because the URLs of nodes contain keys.

    Attributes:
        retry_after_s: How many seconds the node asks its clients to wait; 0 when the node does not say.
    """

    def __init__(self, detail: str, retry_after_s: int = 0) -> None:
        super().__init__(detail, retry_after_s)


class NodeUnavailable(NodeError):
    """The node does not answer, or it refuses all requests."""


class IngestCancelled(NodeUnavailable):
    """The ingest is stopping, so it does not wait for an answer."""


class BlockIncomplete(NodeError):
    """No method of the node returns all logs of a block. Retry later, or ask another node."""


class NodeBehind(NodeError):
    """The node does not have the block yet. Retry soon, or ask another node."""


class NodeRateLimited(NodeError):
    """The node rejects requests because too many were sent, or because a quota is used up.

    Retry later, or set a lower `--rate`.
    """


class NodeCallFailed(NodeError):
    """The node is up, but it rejects one call repeatedly, or answers it unusably.

    Call another method, or use another node.
    """


class NodeMethodMissing(NodeCallFailed):
    """The node does not offer the method. Call another method, or use another node."""


class NodeCallTooLarge(NodeCallFailed):
    """The node rejects a call because the call or its result is too large.

    Request fewer blocks or logs in one call.
    """


class PriceStateUnreadable(Unavailable):
    """Another version of Headwater wrote the stored price state, or the state is damaged.

    Use the version that wrote the state, or rebuild the prices.
    """

    def __init__(self) -> None:
        super().__init__(
            "The stored price state can't be read: another version of Headwater wrote it, or it is damaged. "
            "Use that version, or rebuild the prices."
        )


class ValuesBeingRemoved(Unavailable):
    """A save restores a filter whose expired values are being removed at this moment.

    Send the same request again.
    """


class Overloaded(Unavailable):
    """Other requests of the same kind, of this owner or of others, do not end in time.

    Send fewer requests at the same time.
    """

    def __init__(self, waited_s: float) -> None:
        super().__init__(
            f"This request has waited for {waited_s:g} s, because other requests of this kind, of yours or of other "
            "owners, take long. Send it again, and fewer at the same time."
        )


class ApiStopping(Unavailable):
    """The process of the API is stopping while the request waits, for example for a deploy.

    What the request began continues. Send the same request again; another process handles it.
    """

    def __init__(self) -> None:
        super().__init__(
            "This process of the API is stopping, and what this request began continues. Send the same request again "
            "to wait for its end."
        )


class DeployPending(Unavailable):
    """A requested change of a deployment is still in progress, such as a deploy or a teardown.

    Send the request again to wait for its end, or read GET …/deploy.
    """


class LeaseLost(HeadwaterError):
    """Another controller has acquired the lease, or this controller has never held it.

    Nothing was written.
    """

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"This controller no longer holds the lease `{lease}`, so it stops and changes nothing. Another controller "
            "continues; look at its log."
        )


class DeployFailed(HeadwaterError):
    """A deploy, resume or rewind has failed. The detail says why.

    Often the workers of the revision did not become ready. The same request would fail again until the cause is
    removed.
    """


class BrokerUnsuitable(DeployFailed):
    """Kafka or Google Pub/Sub rejects something that Headwater needs, or lacks it.

    A retry does not help. The detail says what to change: the cluster, the topic or subscription, or the settings.
    """


class SetupError(HeadwaterError):
    """A command can't start. The detail says what to do."""


class DecryptionFailed(SetupError):
    """A stored credential was encrypted with another secret key.

    A deployment with such credentials is returned as unreadable. A process refuses to start only when it can decrypt
    none of the rows.
    """

    def __init__(self) -> None:
        super().__init__(
            "The stored credentials can't be decrypted: they were encrypted with another secret key. Put back the "
            "secret-key file that belongs to this database, or set HEADWATER_SECRET_KEY to its content. If the key was "
            "replaced, set HEADWATER_OLD_SECRET_KEY to the previous one."
        )


class IngestStopped(HeadwaterError):
    """An ingest must stop, because a retry would fail again or lose records.

    The detail says what to do.
    """


class WorkerError(HeadwaterError):
    """A worker can't continue. It stops without a commit, and the orchestrator starts it again."""


class Fenced(WorkerError):
    """Another worker has taken the place of this one in the consumer group.

    It has the same static member id (`group.instance.id`), or it owns the partitions. Check whether a second controller
    runs this deployment.
    """


class TransactionFailed(WorkerError):
    """A transaction has failed, or its outcome is unknown.

    Use a new producer, and read the records again from the committed offsets.
    """


class NoValidOffset(WorkerError):
    """The consumer group has no committed offset on the source topic, or an invalid one.

    A worker never chooses a start offset itself. The controller sets the offsets of a new consumer group.
    """


class SandboxFailed(WorkerError):
    """The V8 child process can't be started, does not load its script, or does not end."""


def os_error_reason(error: Exception) -> str:
    """Return why an operation on a file failed, for a message that contains the path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
