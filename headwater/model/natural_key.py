"""Computes the natural key of a record, which identifies the record on its chain.

A record that is written twice has the same key both times, so both copies go to the same partition.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from headwater.model.stream import find_entity

KeyOf = Callable[[bytes], bytes | None]
"""A function that computes the natural key of a record; None when the record has none."""

_INDEX_PREFIX = "_"
"""The prefix of the struct attribute for a list index, because the name of an attribute can't start with a digit."""
_KeyValue = str | int | float | None | msgspec.UnsetType


@lru_cache
def natural_key(chain: str, entity: str) -> KeyOf:
    """Return a function that computes the natural key of a record: `<chain>:<value>:…`.

    The catalog has the key fields, whose values form the key. A record that lacks a field of the first key gets a
    fallback key. The function returns None when no key has all of its fields in the record, or when the record is not a
    JSON object.
    """
    catalog_entity = find_entity(chain, entity)
    if catalog_entity is None or not catalog_entity.key:
        return lambda _: None
    readers = [_reader(paths) for paths in (catalog_entity.key, *catalog_entity.fallback_keys)]

    def key_of(record: bytes) -> bytes | None:
        for read_values in readers:
            if (values := read_values(record)) is not None:
                return ":".join([chain, *map(_text, values)]).encode()
        return None

    return key_of


def _reader(paths: Sequence[str]) -> Callable[[bytes], list[object] | None]:
    """Return a function that reads the values at these paths of a record.

    The function returns None when one of the values is missing or null.
    """
    attribute_paths = [[_attribute(name) for name in path.split(".")] for path in paths]
    decode = msgspec.json.Decoder(_struct(attribute_paths)).decode
    getters = [attrgetter(".".join(path)) for path in attribute_paths]

    def read(record: bytes) -> list[object] | None:
        try:
            decoded = decode(record)
            values = [get_value(decoded) for get_value in getters]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return None
        return None if msgspec.UNSET in values or None in values else values

    return read


def _text(value: object) -> str:
    """Return a value as text. An integer that is written as 17.0 becomes 17."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _attribute(name: str) -> str:
    """Return the name of the struct attribute for a JSON field or a list index."""
    return f"{_INDEX_PREFIX}{name}" if name.isdecimal() else name


def _struct(paths: list[list[str]]) -> type[msgspec.Struct]:
    """Return a struct with attributes for these paths only.

    A decoder of this struct skips all other values. The list indexes in the paths must start at 0, without gaps.
    """
    fields: list[tuple[str, Any, Any]] = []
    for name in dict.fromkeys(path[0] for path in paths):
        subpaths = [path[1:] for path in paths if path[0] == name and path[1:]]
        fields.append((name, _struct(subpaths) | msgspec.UnsetType if subpaths else _KeyValue, msgspec.UNSET))
    return msgspec.defstruct("Key", fields, array_like=all(name.startswith(_INDEX_PREFIX) for name, _, _ in fields))
