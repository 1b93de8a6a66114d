"""The present time and the generator of ids.

Services take functions for both as arguments, so that tests can choose them.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from ulid import ULID

Now = Callable[[], datetime]
"""Returns the present time in UTC."""
NewId = Callable[[], str]
"""Returns a new id."""


def utc_now() -> datetime:
    """Return the current time in UTC, truncated to the milliseconds that the API shows."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def new_id() -> str:
    """Return a new ULID: 26 lower-case, URL-safe characters that sort by creation time."""
    return str(ULID()).lower()
