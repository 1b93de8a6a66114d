"""JSON-lines files as record streams."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headwater.errors import SetupError


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
