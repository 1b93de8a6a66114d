"""Places in lists that are ordered newest first, and the cursors that name them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MAX_LIST_LIMIT = 1_000
CURSOR_PATTERN = r"^[0-9]{1,17}-[0-9a-z]{1,64}$"
PART_BYTES = 1 << 20
"""Objects are read in parts of about this size, whatever the length of the list."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an object in a list. size: bytes that the object takes, where that is known."""

    created_at: datetime
    id: str
    size: int = 0

    @property
    def order(self) -> tuple[datetime, str]:
        """What the list is ordered by, downwards."""
        return self.created_at, self.id

    def cursor(self) -> str:
        """The cursor of the page that begins behind this place."""
        return f"{(self.created_at - _EPOCH) // timedelta(microseconds=1)}-{self.id}"


def place_of(cursor: str) -> Place:
    """The place that a cursor names. Raises ValueError when the text is no cursor."""
    if not re.fullmatch(CURSOR_PATTERN, cursor):
        raise ValueError("must be a cursor from the Link header of the page before")
    microseconds, _, object_id = cursor.partition("-")
    return Place(_EPOCH + timedelta(microseconds=int(microseconds)), object_id)


def parts_of(places: Sequence[Place]) -> Iterator[Sequence[Place]]:
    """The places in runs of about PART_BYTES; one that is larger stands alone."""
    part: list[Place] = []
    for place in places:
        if part and sum(one.size for one in part) + place.size > PART_BYTES:
            yield part
            part = []
        part.append(place)
    if part:
        yield part
