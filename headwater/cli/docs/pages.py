"""The list of generated pages.

It imports most modules of Headwater, so only `headwater docs` imports it.
"""

from collections.abc import Callable

from headwater.cli.docs import configuration, endpoints, errors, limits, openapi, settings, streams

PAGES: dict[str, Callable[[], str]] = {
    "openapi.json": openapi.page,
    "endpoints.md": endpoints.page,
    "configuration.md": configuration.page,
    "limits.md": limits.page,
    "errors.md": errors.page,
    "streams.md": streams.page,
    "settings.md": settings.page,
}
