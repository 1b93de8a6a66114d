"""Computes the natural key of a record, which identifies the record on its chain.

A record that is written twice has the same key both times, so it goes to the same partition.
"""

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
    """Return a function that computes the natural key of a record: `<chain>:<member>:…`.

    The function returns None when the record has no key, or is not a JSON object.
    """
    found = find_chain(chain)
    known = found.entity(entity) if found is not None else None
    if known is None or not known.key:
        return lambda _: None
    read, read_other = _reader(known.key), _reader(known.fallback_key) if known.fallback_key else None

    def key_of(record: bytes) -> bytes | None:
        values = read(record)
        if values is None and read_other is not None:
            values = read_other(record)
        return None if values is None else ":".join([chain, *map(_text, values)]).encode()

    return key_of


def _reader(paths: Sequence[str]) -> Callable[[bytes], list[object] | None]:
    """Return a function that reads some members of a record.

    It returns None when one of them is missing or null.
    """
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
    """Return a value as text. An integer that is written as 17.0 becomes 17."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _attribute(name: str) -> str:
    """Return the name of the struct attribute of a member, or of a list index."""
    return f"{_PLACE}{name}" if name.isdecimal() else name


def _struct(paths: list[list[str]]) -> type[msgspec.Struct]:
    """Return a struct of only these members, so that its decoder skips all others.

    List indexes must start at 0, without gaps.
    """
    fields: list[tuple[str, Any, Any]] = []
    for name in dict.fromkeys(path[0] for path in paths):
        below = [path[1:] for path in paths if path[0] == name and path[1:]]
        fields.append((name, _struct(below) | msgspec.UnsetType if below else _Id, msgspec.UNSET))
    return msgspec.defstruct("Key", fields, array_like=all(name.startswith(_PLACE) for name, _, _ in fields))
