"""Parses the timestamps of records."""

from datetime import UTC, datetime

_UNITS_PER_SECOND = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
_NANOSECONDS_PER_SECOND = 10**9
"""The unit of a number follows from its size: below 1e11 it is in seconds since the epoch, below 1e14 in milliseconds,
below 1e17 in microseconds, and otherwise in nanoseconds.

The limits exclude confusion of real times: 1e11 seconds are in the year 5138, and 1e11 milliseconds are in 1973.
"""


def units_per_second(at: float) -> int:
    """Return how many units of a time since the epoch are one second. The size of the number tells its unit."""
    return next((units for limit, units in _UNITS_PER_SECOND if abs(at) < limit), _NANOSECONDS_PER_SECOND)


def to_epoch_ms(at: object) -> float | None:
    """Convert a number or an ISO 8601 time (UTC without a zone) to ms since the epoch.

    Returns None for other types. Raises ValueError or OverflowError when the string or the number is not a valid time.
    """
    if isinstance(at, str):
        time = datetime.fromisoformat(at.removesuffix(" UTC"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return at / (units_per_second(at) / 1000)
