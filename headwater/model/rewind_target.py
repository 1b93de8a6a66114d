"""Parses where a request wants to rewind a pipeline to."""

import re
from typing import Any, Final

from headwater.errors import Fault, InvalidInput
from headwater.model.flow import require_start_at
from headwater.model.positions import RewindTarget

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1

TARGET_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "string", "enum": ["latest", "earliest"]},
        {"type": "string", "format": "date-time", "pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"},
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^(0|[1-9][0-9]{0,9})$"},
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET},
        },
    ]
}
"""The JSON schema of a target."""

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")


def parse_rewind_target(to: object) -> RewindTarget:
    """Return the target in the member `to` of a request.

    Raises InvalidInput with a pointer for each fault.
    """
    faults = list[Fault]()
    if isinstance(to, str):
        try:
            return require_start_at(to)
        except ValueError as error:
            faults.append(Fault("/to", str(error)))
    elif not isinstance(to, dict) or not to:
        detail = (
            'must be "latest", "earliest", an RFC 3339 time, or an object with the offset of at least one partition'
        )
        faults.append(Fault("/to", detail))
    else:
        faults += [fault for partition, offset in to.items() if (fault := _fault_of(partition, offset)) is not None]
    if faults:
        raise InvalidInput("The request was refused.", faults)
    assert isinstance(to, dict)
    return {int(partition): offset for partition, offset in to.items()}


def _fault_of(partition: str, offset: object) -> Fault | None:
    if not _PARTITION.fullmatch(partition) or int(partition) > MAX_PARTITION:
        return Fault(_pointer(partition), "must be the number of a partition of the source")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= MAX_OFFSET:
        return Fault(_pointer(partition), f"must be an offset: an integer from 0 to {MAX_OFFSET}")
    return None


def _pointer(partition: str) -> str:
    """Return the JSON pointer to the offset of a partition."""
    return "/to/" + partition.replace("~", "~0").replace("/", "~1")


def unknown_partitions_error(to: dict[int, int], partitions: int) -> InvalidInput | None:
    """Return the error for a target with partitions that the source does not have.

    Returns None when the source has them all.

    Args:
        to: The offsets by partition.
        partitions: How many partitions the source has.
    """
    detail = f"is not a partition of the source, which has the partitions 0 to {partitions - 1}"
    faults = [Fault(f"/to/{partition}", detail) for partition in sorted(to) if partition >= partitions]
    return InvalidInput("The request was refused.", faults) if faults else None
