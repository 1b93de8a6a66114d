"""The OpenAPI description of the API."""

import functools
import json
from typing import Any


@functools.cache
def description() -> dict[str, Any]:
    """Return the description, as GET /openapi.json returns it."""
    from headwater.api.app import ROUTES
    from headwater.api.openapi import describe

    return describe(ROUTES)


def page() -> str:
    """Return the description as JSON text."""
    return json.dumps(description(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
