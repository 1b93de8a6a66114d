"""Signing in: a one-time code is exchanged for an API key that expires after some hours."""

import secrets
from datetime import timedelta

from headwater.model.key import digest

CODE_TTL = timedelta(seconds=60)
"""How long a code can be exchanged."""
KEY_TTL = timedelta(hours=12)
"""How long the API key of a code is valid."""
MAX_CODE_CHARS = 100
_CODE_BYTES = 32


def generate_code() -> tuple[str, bytes]:
    """Generate a code that fits into a URL.

    Returns the text of the code, and its digest. Only the digest is stored, and the code can't be computed from it.
    """
    code = secrets.token_urlsafe(_CODE_BYTES)
    return code, digest(code)
