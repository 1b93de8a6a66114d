"""Parses and converts times: of requests, and of records."""

import re
from datetime import UTC, datetime, timedelta

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
"""Matches a time of RFC 3339 in upper case."""

_UNITS_PER_SECOND = ((10**11, 1), (10**14, 10**3), (10**17, 10**6))
"""Pairs of a limit and the units per second of the timestamps below the limit.

The unit of a timestamp follows from its size: a number below 1e11 has seconds since the epoch, a number below 1e14
milliseconds, a number below 1e17 microseconds, and a larger number nanoseconds. Timestamps of blockchains are never
ambiguous: 1e11 seconds are in the year 5138, and 1e11 milliseconds are in 1973.
"""
_NANOSECONDS_PER_SECOND = 10**9


def parse_rfc_3339(text: str) -> datetime:
    """Return a time of RFC 3339, which may have `t` and `z` in lower case. Raises ValueError."""
    if not _RFC_3339.fullmatch(text.upper()):
        raise ValueError("must be an RFC 3339 time with a time zone, such as 2026-01-02T03:04:05Z")
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError("must be an RFC 3339 time of a day that exists, such as 2026-01-02T03:04:05Z") from None


def ceil_epoch_ms(time: datetime) -> int:
    """Return a time in milliseconds since the epoch.

    The time is rounded up, so that a search from this time finds no record from before it.
    """
    return -((datetime(1970, 1, 1, tzinfo=UTC) - time) // timedelta(milliseconds=1))


def from_epoch_ms(time: int) -> datetime:
    """Return the time that is given in milliseconds since the epoch."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)


def units_per_second(timestamp: float) -> int:
    """Return how many units of a timestamp are one second: 1, 10^3, 10^6 or 10^9."""
    return next((units for limit, units in _UNITS_PER_SECOND if abs(timestamp) < limit), _NANOSECONDS_PER_SECOND)


def to_epoch_ms(timestamp: object) -> float | None:
    """Convert a number, or an ISO 8601 time (UTC when it has no zone), to ms since the epoch.

    Returns None for values of other types. Raises ValueError or OverflowError when the timestamp is not a valid time.
    """
    if isinstance(timestamp, str):
        time = datetime.fromisoformat(timestamp.removesuffix(" UTC"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        return None
    return timestamp / (units_per_second(timestamp) / 1000)
