"""Maps positions, the last rewind and gaps of a deployment to columns of its row.

The columns contain JSON. A column is NULL when there is nothing to store.
"""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row

from headwater.model.deployment import Deployment
from headwater.model.positions import OFFSET_GAPS, Rewind, StoredPositions
from headwater.stores.sql import store_errors

_READERS: dict[str, tuple[Callable[[str], Any], Any]] = {
    "positions": (StoredPositions.model_validate_json, StoredPositions()),
    "rewind": (Rewind.model_validate_json, None),
    "gaps": (OFFSET_GAPS.validate_json, ()),
}
"""By column: the function that reads its JSON, and the value of NULL."""


def position_columns(deployment: Deployment) -> dict[str, str | None]:
    """Return the columns for the positions, the last rewind and the gaps of a deployment."""
    return {
        "positions": deployment.positions.model_dump_json() if deployment.positions else None,
        "rewind": None if deployment.rewind is None else deployment.rewind.model_dump_json(),
        "gaps": OFFSET_GAPS.dump_json(deployment.gaps).decode() if deployment.gaps else None,
    }


def read_stored_positions(stored: str | None) -> StoredPositions:
    """Return the positions in the column `positions`; no positions when they can't be read."""
    try:
        return StoredPositions() if stored is None else StoredPositions.model_validate_json(stored)
    except ValidationError:
        return StoredPositions()


def read_positions(row: Row[Any]) -> tuple[dict[str, Any], str]:
    """Return the attributes of a deployment from these columns, and why one can't be read.

    The message is empty when all of them can be read.
    """
    values, error = dict[str, Any](), ""
    for column, (read, default) in _READERS.items():
        stored = getattr(row, column)
        try:
            values[column] = default if stored is None else read(stored)
        except ValidationError:
            values[column] = default
            error = store_errors.unreadable_positions(column)
    return values, error
