"""The natural key of a record: what its chain tells it by, so that a record that is fed again lands where it was."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.stream import find_chain

KeyOf = Callable[[bytes], bytes | None]

_PLACE = "_"
_Id = str | int | float | None | msgspec.UnsetType


@lru_cache
def natural_key(chain: str, entity: str) -> KeyOf:
    """Of a record of this stream as JSON: `<chain>:<member>:…`; None when it has none or is no JSON object."""
    found = find_chain(chain)
    known = found.entity(entity) if found is not None else None
    if known is None or not known.key:
        return lambda _: None
    read, read_other = _reader(known.key), _reader(known.other_key) if known.other_key else None

    def key_of(record: bytes) -> bytes | None:
        values = read(record)
        if values is None and read_other is not None:
            values = read_other(record)
        return None if values is None else ":".join([chain, *map(_text, values)]).encode()

    return key_of


def _reader(paths: Sequence[str]) -> Callable[[bytes], list[object] | None]:
    """Reads some members of a record: None when one of them is missing or null."""
    split = [[_attribute(name) for name in path.split(".")] for path in paths]
    decode = msgspec.json.Decoder(_struct(split)).decode
    getters = [attrgetter(".".join(path)) for path in split]

    def read(record: bytes) -> list[object] | None:
        try:
            members = decode(record)
            values = [get(members) for get in getters]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return None
        return None if msgspec.UNSET in values or None in values else values

    return read


def _text(value: object) -> str:
    """An integer that a program wrote as 17.0 is the same as 17."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _attribute(name: str) -> str:
    """The attribute that stands for a member, or for a place in a list."""
    return f"{_PLACE}{name}" if name.isdecimal() else name


def _struct(paths: list[list[str]]) -> type[msgspec.Struct]:
    """A struct of these members alone: its decoder skips all others. Places in a list begin at 0, without a gap."""
    fields: list[tuple[str, Any, Any]] = []
    for name in dict.fromkeys(path[0] for path in paths):
        below = [path[1:] for path in paths if path[0] == name and path[1:]]
        fields.append((name, _struct(below) | msgspec.UnsetType if below else _Id, msgspec.UNSET))
    return msgspec.defstruct("Key", fields, array_like=all(name.startswith(_PLACE) for name, _, _ in fields))
