"""Lower case for the members of a record that a stream stores so: programs export addresses in EIP-55's mixed case."""

import re
import string
from collections.abc import Callable, Collection
from typing import Final

import msgspec

_CAPITALS: Final = string.ascii_uppercase.encode()
_ALL_BUT_CAPITALS: Final = bytes(set(range(256)) - set(_CAPITALS))
_TIME_OF_DAY: Final = re.compile(rb'T\d\d:[\d:.]+Z"')

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
encode: Final = msgspec.json.encode


def lowercase(names: Collection[str]) -> Callable[[bytes], bytes]:
    """Make a function that puts these members of a JSON record, texts or arrays of texts, into lower case.

    A record that has nothing to change stays as it is, byte for byte, and so does one that is no JSON object. All
    other members keep their bytes.
    """
    if not names:
        return lambda record: record
    return lambda record: _converted(record, names) if _may_have_capitals(record) else record


def _may_have_capitals(record: bytes) -> bool:
    """False for most records, at little cost: their only capitals are those of one time of day in RFC 3339."""
    capitals = record.translate(None, _ALL_BUT_CAPITALS)
    if capitals == b"TZ":
        return _TIME_OF_DAY.match(record, record.index(b"T")) is None
    return bool(capitals)


def _converted(record: bytes, names: Collection[str]) -> bytes:
    try:
        members = _members(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return record
    changed = {}
    for name in names:
        value = bytes(members.get(name, b""))
        if value[:1] in (b'"', b"[") and value.translate(None, _ALL_BUT_CAPITALS):
            changed[name] = msgspec.Raw(encode(_lower(msgspec.json.decode(value))))
    return encode(members | changed) if changed else record


def _lower(value: object) -> object:
    if isinstance(value, list):
        return [_lower(member) for member in value]
    return value.lower() if isinstance(value, str) else value
