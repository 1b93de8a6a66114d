"""Reads the event time of a record from a field of its JSON."""

from typing import Any

import msgspec

from headwater.model.timestamps import to_epoch_ms


class EventTime:
    """Reads the event time from one field of JSON objects.

    Args:
        field: The name of the field; None when the records have no event time.
    """

    def __init__(self, field: str | None) -> None:
        self._decode = None if field is None else _decoder(field)

    def read(self, value: bytes | None) -> float | None:
        """Return the event time in ms since the epoch, or None when the field is no time.

        A time is a number or an ISO 8601 time, which is in UTC when it has no zone.
        """
        if self._decode is None or not value:
            return None
        try:
            time_ms: float | None = to_epoch_ms(self._decode(value).time)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            return None  # a record without a readable event time is not an error
        return time_ms


def _decoder(field: str) -> Any:
    """Return a decoder that reads only one field of an object."""
    record = msgspec.defstruct("Record", [("time", Any, None)], rename={"time": field})
    return msgspec.json.Decoder(record).decode
