"""Lower case for the members of a record that a stream stores so: programs export addresses in EIP-55's mixed case."""

import re
from collections.abc import Callable, Collection
from typing import Final

import msgspec

_UPPER: Final = re.compile(rb"[A-Z]")

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
encode: Final = msgspec.json.encode


def lowercase(names: Collection[str]) -> Callable[[bytes], bytes]:
    """Make a function that puts these members of a JSON record, texts or arrays of texts, into lower case.

    A record that has nothing to change stays as it is, byte for byte, and so does one that is no JSON object. All
    other members keep their bytes.
    """
    if not names:
        return lambda record: record
    quoted = b"|".join(re.escape(name.encode()) for name in names)
    # Most records of a chain have no capital there, and a search costs less than taking a record apart.
    candidate = re.compile(rb'"(?:%b)"\s*:\s*(?:"[^"]*[A-Z]|\[[^\]]*[A-Z])' % quoted).search

    def convert(record: bytes) -> bytes:
        return _converted(record, names) if candidate(record) else record

    return convert


def _converted(record: bytes, names: Collection[str]) -> bytes:
    try:
        members = _members(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return record
    for name in names:
        value = bytes(members.get(name, b""))
        if value[:1] in (b'"', b"[") and _UPPER.search(value):
            members[name] = msgspec.Raw(encode(_lower(msgspec.json.decode(value))))
    return encode(members)


def _lower(value: object) -> object:
    if isinstance(value, list):
        return [_lower(member) for member in value]
    return value.lower() if isinstance(value, str) else value
