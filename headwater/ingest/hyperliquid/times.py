"""Hyperliquid's times: ISO 8601 in UTC without a zone, up to nanoseconds."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=256)
def to_ms(time: str) -> int:
    """Milliseconds since 1970; digits beyond them are cut off. Raises ValueError."""
    whole = int(datetime.fromisoformat(time[:19]).replace(tzinfo=UTC).timestamp())
    return whole * 1000 + int(time[20:23].ljust(3, "0"))
