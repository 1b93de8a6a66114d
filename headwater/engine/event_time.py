"""When a record happened, by its own account."""

from datetime import UTC, datetime
from typing import Any

import msgspec

_UNITS_PER_MS = ((1e11, 1e-3), (1e14, 1.0), (1e17, 1e3), (float("inf"), 1e6))
"""Numbers up to a limit are in these units: seconds, milliseconds, microseconds, nanoseconds since the epoch.

The limits are far apart in time: 1e11 seconds are the year 5138, 1e11 milliseconds are 1973.
"""


class EventTime:
    """Reads the member `field` of JSON objects; None: records that don't tell their time."""

    def __init__(self, field: str | None) -> None:
        self._decode = None if field is None else _decoder(field)

    def read(self, value: bytes | None) -> float | None:
        """Milliseconds since the epoch, from a number or an ISO 8601 time (UTC without a zone); None without either."""
        if self._decode is None or not value:
            return None
        try:
            return _milliseconds(self._decode(value).at)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            return None  # a record that says it in another way, or is no JSON object, is no fault of the pipeline


def _decoder(field: str) -> Any:
    """Reads one member and skips the others."""
    record = msgspec.defstruct("Record", [("at", Any, None)], rename={"at": field})
    return msgspec.json.Decoder(record).decode


def _milliseconds(at: object) -> float | None:
    if isinstance(at, str):
        time = datetime.fromisoformat(at.removesuffix(" UTC"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return at / next(unit for limit, unit in _UNITS_PER_MS if abs(at) < limit)
