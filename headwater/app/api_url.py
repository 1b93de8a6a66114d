"""The URL of the API that a process of this machine serves."""

from headwater.settings import Settings

LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared, not bound
"""The address at which this machine reaches a server that listens on all addresses."""


def api_url(host: str, port: int) -> str:
    """Return the URL of the API on a host, which may be an IPv6 address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def local_api_url(settings: Settings) -> str:
    """Return the URL at which this machine reaches the API that has these settings."""
    return api_url(LOOPBACK_BY_WILDCARD.get(settings.host, settings.host), settings.port)
