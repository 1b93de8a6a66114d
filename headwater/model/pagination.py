"""Positions in lists that begin with the newest object, and their cursors."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

T = TypeVar("T")

MAX_LIST_LIMIT = 1_000
LIST_CURSOR_PATTERN = r"^[0-9]{1,17}-[0-9a-z]{1,64}$"
PART_BYTES = 1 << 20
"""The approximate size of the parts in which a list is read, so that a long list does not need much memory."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ListPosition:
    """The position of an object in a list.

    Attributes:
        created_at: When the object was created.
        id: The id of the object.
        size: The size of the stored object in bytes; 0 when it is unknown.
    """

    created_at: datetime
    id: str
    size: int = 0

    @property
    def order(self) -> tuple[datetime, str]:
        """The sort key. A list is in descending order of this key."""
        return self.created_at, self.id

    def cursor(self) -> str:
        """Return the cursor of the page that starts after this position."""
        return f"{(self.created_at - _EPOCH) // timedelta(microseconds=1)}-{self.id}"


def parse_list_cursor(cursor: str) -> ListPosition:
    """Return the position that a cursor encodes.

    Raises ValueError when the text is not a cursor.
    """
    if not re.fullmatch(LIST_CURSOR_PATTERN, cursor):
        raise ValueError("must be a cursor of the previous page")
    microseconds, _, object_id = cursor.partition("-")
    return ListPosition(_EPOCH + timedelta(microseconds=int(microseconds)), object_id)


def split_by_size(items: Sequence[T], size_of: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Split items into parts whose objects have at most PART_BYTES.

    A larger object is a part of its own.

    Args:
        items: The items, such as positions in a list.
        size_of: Returns the size of an item's object in bytes.
    """
    part: list[T] = []
    part_bytes = 0
    for item in items:
        size = size_of(item)
        if part and part_bytes + size > PART_BYTES:
            yield part
            part, part_bytes = [], 0
        part.append(item)
        part_bytes += size
    if part:
        yield part
