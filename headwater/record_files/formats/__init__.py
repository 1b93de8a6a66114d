"""The formats of record files. A new format needs a module here and an entry in FORMATS."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.record_files.formats.base import OpenReader
from headwater.record_files.formats.csv_reader import CsvReader, tsv_reader
from headwater.record_files.formats.json_lines import JsonLinesReader
from headwater.record_files.formats.parquet import ParquetReader

FORMATS: Final[Mapping[str, OpenReader]] = {
    "jsonl": JsonLinesReader,
    "csv": CsvReader,
    "tsv": tsv_reader,
    "parquet": ParquetReader,
}
_SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(path: Path) -> str:
    """Return the format by the last known suffix of a file.

    So the suffix of the compression is ignored.

    A file without a known suffix has JSON lines.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((_SUFFIXES[suffix] for suffix in reversed(suffixes) if suffix in _SUFFIXES), "jsonl")
