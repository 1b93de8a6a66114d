"""Decodes the stored positions of ingests."""

from typing import TypeVar

import msgspec

from headwater.errors import IngestStopped

_Position = TypeVar("_Position", bound=msgspec.Struct)


def read_position(stored: bytes, type_: type[_Position], name: str) -> _Position:
    """Decode the stored position of the ingest `name`.

    Raises IngestStopped when another kind of ingest, or an ingest of another source, stored the position.
    """
    try:
        return msgspec.json.decode(stored, type=type_)
    except msgspec.DecodeError as error:
        raise IngestStopped(
            f"The stored position of the ingest {name} belongs to another kind of ingest or another source: choose "
            "another --name."
        ) from error
