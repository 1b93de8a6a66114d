"""Decodes the stored positions of ingests."""

from typing import TypeVar

import msgspec

from headwater.errors import IngestStopped

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def read_position(text: bytes, kind: type[_Kind], name: str) -> _Kind:
    """Return the stored position of an ingest.

    Raises IngestStopped when another kind of ingest, or an ingest of another source, stored it.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise IngestStopped(
            f"The stored position of the ingest {name} belongs to another kind of ingest: choose another --name."
        ) from error
