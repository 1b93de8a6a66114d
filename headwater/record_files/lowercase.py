"""Converts members of records to lower case, for example addresses with EIP-55 checksums."""

import re
import string
from collections.abc import Callable, Collection
from typing import Final

import msgspec

_CAPITALS: Final = string.ascii_uppercase.encode()
_ALL_BUT_CAPITALS: Final = bytes(set(range(256)) - set(_CAPITALS))
_TIME_OF_DAY: Final = re.compile(rb'T\d\d:[\d:.]+Z"')

_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.encode


def lowercase(names: Collection[str]) -> Callable[[bytes], bytes]:
    """Return a function that converts these members of a JSON record to lower case.

    The members are strings and arrays of strings. A record without capitals in these members stays unchanged, byte for
    byte, and so does a record that is not a JSON object. All other members keep their bytes.
    """
    if not names:
        return lambda record: record
    return lambda record: _converted(record, names) if _may_have_capitals(record) else record


def _may_have_capitals(record: bytes) -> bool:
    """Test quickly for capitals.

    Returns False for most records, whose only capitals are the T and the Z of one RFC 3339 time.
    """
    capitals = record.translate(None, _ALL_BUT_CAPITALS)
    if capitals == b"TZ":
        return _TIME_OF_DAY.match(record, record.index(b"T")) is None
    return bool(capitals)


def _converted(record: bytes, names: Collection[str]) -> bytes:
    try:
        members = _decode_members(record)
        changed = {name: _lower(members[name]) for name in names if _has_capitals(bytes(members.get(name, b"")))}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return record
    return _encode(members | changed) if changed else record


def _has_capitals(value: bytes) -> bool:
    return value[:1] in (b'"', b"[") and bool(value.translate(None, _ALL_BUT_CAPITALS))


def _lower(value: msgspec.Raw) -> msgspec.Raw:
    """Convert a string, or the strings of an array, to lower case.

    Other values keep their bytes.
    """
    start = bytes(value)[:1]
    if start == b"[":
        return msgspec.Raw(_encode([_lower(item) for item in _decode_items(value)]))
    return msgspec.Raw(_encode(_decode_text(value).lower())) if start == b'"' else value
