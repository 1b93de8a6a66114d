"""When a record happened, by its own account."""

from typing import Any

import msgspec

from headwater.model.timestamps import milliseconds


class EventTime:
    """Reads the member `field` of JSON objects; None: records that don't tell their time."""

    def __init__(self, field: str | None) -> None:
        self._decode = None if field is None else _decoder(field)

    def read(self, value: bytes | None) -> float | None:
        """Milliseconds since the epoch, from a number or an ISO 8601 time (UTC without a zone); None without either."""
        if self._decode is None or not value:
            return None
        try:
            at: float | None = milliseconds(self._decode(value).at)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            return None  # a record that says it in another way, or is no JSON object, is no fault of the pipeline
        return at


def _decoder(field: str) -> Any:
    """Reads one member and skips the others."""
    record = msgspec.defstruct("Record", [("at", Any, None)], rename={"at": field})
    return msgspec.json.Decoder(record).decode
