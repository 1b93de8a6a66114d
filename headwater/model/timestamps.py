"""Times as records tell them."""

from datetime import UTC, datetime

_UNITS_PER_MS = ((1e11, 1e-3), (1e14, 1.0), (1e17, 1e3))
_NANOSECONDS_PER_MS = 1e6
"""Numbers up to a limit are in these units: seconds, milliseconds, microseconds since the epoch; others in nanoseconds.

The limits are far apart in time: 1e11 seconds are the year 5138, 1e11 milliseconds are 1973.
"""


def milliseconds(at: object) -> float | None:
    """Milliseconds since the epoch of a number or an ISO 8601 time (UTC without a zone); None for anything else.

    Raises ValueError, OverflowError for a string or number that is no time.
    """
    if isinstance(at, str):
        time = datetime.fromisoformat(at.removesuffix(" UTC"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return at / next((unit for limit, unit in _UNITS_PER_MS if abs(at) < limit), _NANOSECONDS_PER_MS)
