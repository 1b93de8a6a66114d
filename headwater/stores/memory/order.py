"""The order of lists."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar


class _Created(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> datetime: ...


_Row = TypeVar("_Row", bound=_Created)


def newest_first(rows: Sequence[_Row]) -> list[_Row]:
    """The rows as every list of the stores has them."""
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)
