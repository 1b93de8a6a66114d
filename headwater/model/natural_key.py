"""The natural key of a record: what its chain tells it by, so that a record that is fed again lands where it was."""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.stream import find_chain

KeyOf = Callable[[bytes], bytes | None]

_Id = str | int | float | None | msgspec.UnsetType


@lru_cache
def natural_key(chain: str, entity: str) -> KeyOf:
    """Of a record of this stream as JSON: `<chain>:<member>:…`; None when it has none or is no JSON object."""
    found = find_chain(chain)
    known = found.entity(entity) if found is not None else None
    if known is None or not known.key:
        return lambda _: None
    decoder = msgspec.json.Decoder(_struct([path.split(".") for path in known.key]))
    read = [attrgetter(path) for path in known.key]

    def key_of(record: bytes) -> bytes | None:
        try:
            ids = decoder.decode(record)
            values = [one(ids) for one in read]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return None
        if msgspec.UNSET in values or None in values:
            return None
        return ":".join([chain, *map(_text, values)]).encode()

    return key_of


def _text(value: object) -> str:
    """An integer that a program wrote as 17.0 is the same as 17."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _struct(paths: list[list[str]]) -> type[msgspec.Struct]:
    """A struct of these members alone: its decoder skips all others."""
    fields: list[tuple[str, Any, Any]] = []
    for name in dict.fromkeys(path[0] for path in paths):
        below = [path[1:] for path in paths if path[0] == name and path[1:]]
        fields.append((name, _struct(below) | msgspec.UnsetType if below else _Id, msgspec.UNSET))
    return msgspec.defstruct("Key", fields)
