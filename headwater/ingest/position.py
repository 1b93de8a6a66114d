"""Positions of ingests, as they are stored."""

from typing import TypeVar

import msgspec

from headwater.errors import IngestStopped

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def read_position(text: bytes, kind: type[_Kind], name: str) -> _Kind:
    """The stored position of an ingest. Raises IngestStopped when it is of another kind of ingest, or of source."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise IngestStopped(
            f"The position of the ingest {name} is of another kind: choose another name for this one."
        ) from error
