"""Formats of record files. Adding one is one entry in FORMATS."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.ingest.formats.base import OpenReader
from headwater.ingest.formats.comma_separated import CommaSeparated, tab_separated
from headwater.ingest.formats.json_lines import JsonLines
from headwater.ingest.formats.parquet import Parquet

FORMATS: Final[Mapping[str, OpenReader]] = {
    "jsonl": JsonLines,
    "csv": CommaSeparated,
    "tsv": tab_separated,
    "parquet": Parquet,
}
_SUFFIXES: Final = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}


def format_of(path: Path) -> str:
    """By the file's name, `ticks.csv.gz` like `ticks.csv`; names that tell nothing are those of JSON lines."""
    return next((_SUFFIXES[suffix] for suffix in reversed(path.suffixes) if suffix in _SUFFIXES), "jsonl")
