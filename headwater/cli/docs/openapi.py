"""The API's description."""

import functools
import json
from typing import Any

import headwater


@functools.cache
def description() -> dict[str, Any]:
    """As GET /openapi.json answers it."""
    from fastapi import FastAPI

    from headwater.api import openapi
    from headwater.api.app import DESCRIPTION, ROUTERS

    api = FastAPI(title="Headwater", version=headwater.__version__, description=DESCRIPTION)
    for router in ROUTERS:
        api.include_router(router)
    openapi.describe(api)
    return api.openapi()


def page() -> str:
    """openapi.json"""
    return json.dumps(description(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
