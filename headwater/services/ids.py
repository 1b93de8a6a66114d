"""Where times and ids come from. Services are given both, so that tests can choose them."""

from collections.abc import Callable
from datetime import UTC, datetime

from ulid import ULID

Clock = Callable[[], datetime]
NewId = Callable[[], str]


def utc_now() -> datetime:
    """The time now in UTC, cut to the milliseconds that the API shows."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def new_id() -> str:
    """A ULID: 26 lower-case characters, safe in URLs, that sort by time of creation."""
    return str(ULID()).lower()
