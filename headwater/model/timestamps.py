"""Parses the timestamps of records."""

from datetime import UTC, datetime

_UNITS_PER_MS = ((1e11, 1e-3), (1e14, 1.0), (1e17, 1e3))
_NANOSECONDS_PER_MS = 1e6
"""The unit of a number follows from its size: below 1e11 it is in seconds since the epoch, below 1e14 in milliseconds,
below 1e17 in microseconds, and otherwise in nanoseconds.

The limits exclude confusion of real times: 1e11 seconds are in the year 5138, and 1e11 milliseconds are in 1973.
"""


def to_epoch_ms(at: object) -> float | None:
    """Convert a number or an ISO 8601 time (UTC without a zone) to ms since the epoch.

    Returns None for other types. Raises ValueError or OverflowError when the string or the number is not a valid time.
    """
    if isinstance(at, str):
        time = datetime.fromisoformat(at.removesuffix(" UTC"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return at / next((unit for limit, unit in _UNITS_PER_MS if abs(at) < limit), _NANOSECONDS_PER_MS)
