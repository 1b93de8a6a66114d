"""Calls that are made once, however often they are sent: what is remembered of one."""

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

REMEMBERED_FOR = timedelta(hours=24)
LEASE = timedelta(seconds=30)
"""How long a call that says nothing counts as running. A process that dies leaves its calls to this."""

MAX_KEY_CHARS = 255
KEY_PATTERN = f"^[!-~]{{1,{MAX_KEY_CHARS}}}$"
"""The visible characters of ASCII."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that has ended: the SHA-256 of its body, and its answer.

    The answer to a call that gives out credentials is not here, only its status: it is made anew.
    """

    body_sha256: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Claim = Literal["claimed", "running"] | Answered
"""What claiming a call finds: it is the caller's to run, someone runs it, or it has ended."""


def call_id(owner: str, method: str, path: str, key: str) -> str:
    """Names a call; of fixed length, whatever the lengths of its parts."""
    return hashlib.sha256(f"{owner}\0{method}\0{path}\0{key}".encode()).hexdigest()
