"""The stored state of requests with an Idempotency-Key."""

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

REMEMBERED_FOR = timedelta(hours=24)
CLAIM_TTL = timedelta(seconds=30)
"""How long a claim is valid without being renewed. The claims of a process that has died expire after this time."""

MAX_KEY_CHARS = 255
KEY_PATTERN = f"^[!-~]{{1,{MAX_KEY_CHARS}}}$"
"""The visible characters of ASCII."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The stored response of a request, and the SHA-256 of the request body.

    Of a response that contains credentials, only the status is stored. The response is generated again.
    """

    body_sha256: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Claim = Literal["claimed", "running"] | StoredResponse
"""The result of claiming a request: the caller must execute it ("claimed"), another request with the key is in progress
("running"), or the stored response is returned.
"""


def idempotency_id(owner: str, method: str, path: str, key: str) -> str:
    """Return the id of a request: a hash over owner, method, path and Idempotency-Key."""
    return hashlib.sha256(f"{owner}\0{method}\0{path}\0{key}".encode()).hexdigest()
