"""The clock and the generator of ids.

Services take both as arguments, so that tests can choose them.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from ulid import ULID

Clock = Callable[[], datetime]
NewId = Callable[[], str]


def utc_now() -> datetime:
    """Return the current time in UTC, truncated to the milliseconds that the API shows."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def new_id() -> str:
    """Return a new ULID: 26 lower-case, URL-safe characters that sort by creation time."""
    return str(ULID()).lower()
