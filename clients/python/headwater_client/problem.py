"""Problem documents, which describe errors (RFC 9457)."""

from headwater_client.model import Model


class Fault(Model, frozen=True, kw_only=True):
    """One fault in a request, or a warning about a part of it.

    Attributes:
        pointer: A JSON pointer into the body, or `/<parameter>`; empty when no member is at fault.
        detail: What is wrong.
    """

    pointer: str
    detail: str


class Problem(Model, frozen=True, kw_only=True):
    """The body of an error response.

    Attributes:
        type: The URN of the kind of error.
        detail: What is wrong and what to do.
        instance: The path of the request.
        request_id: Names the request in the server's log.
        errors: With status 422, the faults of the request.
        used: The usage of an exceeded quota; None when all owners share it.
        allowed: The limit of an exceeded quota.
    """

    status: int
    type: str = ""
    title: str = ""
    detail: str = ""
    instance: str = ""
    request_id: str = ""
    errors: list[Fault] | None = None
    used: int | None = None
    allowed: int | None = None
