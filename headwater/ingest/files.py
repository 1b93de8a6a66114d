"""JSON-lines files as record streams."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from headwater.errors import SetupError

_NATURAL_IDS = (
    ("transaction_hash", "log_index"),
    ("txn_id",),
    ("hash", "tid"),
    ("oid", "statusTimestamp"),
    ("height",),
)
"""Fields that identify a record on its chain; the first group of which all are present is used."""


def read_lines(path: Path) -> Iterator[bytes]:
    """The non-empty lines of a file (.gz is unpacked). Raises SetupError when it can't be read."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            yield from (line.rstrip(b"\r\n") for line in file if line.strip())
    except (OSError, EOFError) as error:
        raise SetupError(f"{path} can't be read: {error}.") from error


def natural_key(chain: str, line: bytes) -> bytes | None:
    """The Kafka key of a record: its natural id, so that a record that is fed again lands on the same partition.

    None when the line is no JSON object or has no known id.
    """
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    for names in _NATURAL_IDS:
        if all(name in record for name in names):
            return ":".join([chain, *(str(record[name]) for name in names)]).encode()
    return None
