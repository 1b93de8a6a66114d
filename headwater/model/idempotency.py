"""The stored states of requests that have the header Idempotency-Key."""

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

RESPONSE_TTL = timedelta(hours=24)
"""How long the response of a request is stored."""
CLAIM_TTL = timedelta(seconds=30)
"""How long a claim is valid without being renewed. The claims of a process that was killed expire after this time."""

MAX_KEY_CHARS = 255
KEY_PATTERN = f"^[!-~]{{1,{MAX_KEY_CHARS}}}$"
"""A key consists of visible ASCII characters."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The stored response of a request, and the SHA-256 of the request body.

    When a response contains credentials, `body` has only the members that GET …/deploy does not return. A repeat of the
    request gets the present body of GET …/deploy, to which these members are added.
    """

    body_sha256: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


ClaimResult = Literal["claimed", "running"] | StoredResponse
"""The result of an attempt to claim a request.

"claimed" means that the caller must execute the request. "running" means that another request with the same key is in
progress. A StoredResponse is the response of a request that has ended.
"""


def idempotency_id(owner: str, method: str, path: str, key: str) -> str:
    """Return the id of a request, a hash of its owner, method, path and Idempotency-Key."""
    return hashlib.sha256(f"{owner}\0{method}\0{path}\0{key}".encode()).hexdigest()
