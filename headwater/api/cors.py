"""CORS: what web pages of other origins may send to the API and may read."""

from collections.abc import Collection, Sequence
from typing import Any

EXPOSED_HEADERS = (
    "ETag",
    "Idempotency-Replayed",
    "Link",
    "Location",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "X-Request-Id",
)
MIDDLEWARE_OPTIONS: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": ["Content-Type", "X-API-Key", "If-Match", "Idempotency-Key"],
    "expose_headers": EXPOSED_HEADERS,
    "max_age": 600,
}
"""Arguments of Starlette's CORSMiddleware.

Credentials are not allowed, since the API key is an ordinary header and no cookies are used.
"""


def refusal_headers(origins: Collection[str], headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the CORS headers of a response that the server sends instead of the application.

    They let the same origins read the response as CORSMiddleware does.

    Args:
        origins: The origins whose web pages may call the API; `*` means all.
        headers: The headers of the request that the server has read so far, with names in lower case.
    """
    if not origins:
        return {}
    exposed = {"Access-Control-Expose-Headers": ", ".join(EXPOSED_HEADERS)}
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*", **exposed}
    origin = next((value.decode("latin-1") for name, value in headers if name == b"origin"), "")
    allowed = {"Access-Control-Allow-Origin": origin, **exposed} if origin in origins else {}
    return {**allowed, "Vary": "Origin"}
