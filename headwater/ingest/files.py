"""JSON-lines files as record streams."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headwater.errors import SetupError

_Id = str | int | float | None | msgspec.UnsetType


class _Ids(msgspec.Struct):
    """The members that identify a record on its chain; a decoder of these alone skips all others."""

    transaction_hash: _Id = msgspec.UNSET
    log_index: _Id = msgspec.UNSET
    txn_id: _Id = msgspec.UNSET
    hash: _Id = msgspec.UNSET
    tid: _Id = msgspec.UNSET
    oid: _Id = msgspec.UNSET
    statusTimestamp: _Id = msgspec.UNSET  # noqa: N815  # the record's own spelling
    height: _Id = msgspec.UNSET


_NATURAL_IDS = (
    ("transaction_hash", "log_index"),
    ("txn_id",),
    ("hash", "tid"),
    ("oid", "statusTimestamp"),
    ("height",),
)
"""Members that identify a record together; the first group of which all are present is used."""
_DECODER = msgspec.json.Decoder(_Ids)


def read_lines(path: Path) -> Iterator[bytes]:
    """The non-empty lines of a file (.gz is unpacked). Raises SetupError when it can't be read."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            yield from (line.rstrip(b"\r\n") for line in file if line.strip())
    except (OSError, EOFError) as error:
        raise SetupError(f"{path} can't be read: {error}.") from error


def read_records(path: Path) -> Iterator[bytes]:
    """The records of JSON lines, or of CSV with a header as JSON of strings, empty ones left out; .gz is unpacked."""
    lines = read_lines(path)
    if ".csv" not in path.suffixes:
        yield from lines
        return
    for row in csv.DictReader(line.decode("utf-8-sig", "replace") for line in lines):
        yield msgspec.json.encode({name: value for name, value in row.items() if name and value})


def natural_key(chain: str, line: bytes) -> bytes | None:
    """The Kafka key of a record: its natural id, so that a record that is fed again lands on the same partition.

    None when the line is no JSON object or has no known id.
    """
    try:
        ids = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for names in _NATURAL_IDS:
        values = [getattr(ids, name) for name in names]
        if msgspec.UNSET not in values:
            return ":".join([chain, *map(str, values)]).encode()
    return None
