"""Lower-cases members of records, such as addresses, which other programs export in EIP-55's mixed case."""

import re
import string
from collections.abc import Callable, Collection
from typing import Final

import msgspec

_CAPITALS: Final = string.ascii_uppercase.encode()
_ALL_BUT_CAPITALS: Final = bytes(set(range(256)) - set(_CAPITALS))
_TIME_OF_DAY: Final = re.compile(rb'T\d\d:[\d:.]+Z"')

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_text: Final = msgspec.json.Decoder(str).decode
encode: Final = msgspec.json.encode


def lowercase(names: Collection[str]) -> Callable[[bytes], bytes]:
    """Make a function that puts these members of a JSON record, texts or arrays of texts, into lower case.

    A record without capitals in these members stays as it is, byte for byte, and so does a record that is no JSON
    object. All other members keep their bytes.
    """
    if not names:
        return lambda record: record
    return lambda record: _converted(record, names) if _may_have_capitals(record) else record


def _may_have_capitals(record: bytes) -> bool:
    """A cheap test that is False for most records, whose only capitals are those of one RFC 3339 time."""
    capitals = record.translate(None, _ALL_BUT_CAPITALS)
    if capitals == b"TZ":
        return _TIME_OF_DAY.match(record, record.index(b"T")) is None
    return bool(capitals)


def _converted(record: bytes, names: Collection[str]) -> bytes:
    try:
        members = _members(record)
        changed = {name: _lower(members[name]) for name in names if _is_to_change(bytes(members.get(name, b"")))}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return record
    return encode(members | changed) if changed else record


def _is_to_change(value: bytes) -> bool:
    return value[:1] in (b'"', b"[") and bool(value.translate(None, _ALL_BUT_CAPITALS))


def _lower(value: msgspec.Raw) -> msgspec.Raw:
    """A text, or the texts of an array, in lower case; all else keeps its bytes."""
    start = bytes(value)[:1]
    if start == b"[":
        return msgspec.Raw(encode([_lower(item) for item in _items(value)]))
    return msgspec.Raw(encode(_text(value).lower())) if start == b'"' else value
