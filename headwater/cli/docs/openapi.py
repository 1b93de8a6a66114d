"""The OpenAPI description of the API."""

import functools
import json
from typing import Any

import headwater


@functools.cache
def description() -> dict[str, Any]:
    """Return the description, as GET /openapi.json returns it."""
    from fastapi import FastAPI

    from headwater.api import openapi
    from headwater.api.app import DESCRIPTION, ROUTERS

    api = FastAPI(title="Headwater", version=headwater.__version__, description=DESCRIPTION)
    for router in ROUTERS:
        api.include_router(router)
    openapi.describe(api)
    return api.openapi()


def page() -> str:
    """Return the description as JSON text."""
    return json.dumps(description(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
