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
_SUFFIXES: Final = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}


def format_of(path: Path) -> str:
    """Return the format by the suffix of a file. The suffix of the compression is ignored.

    An unknown suffix means JSON lines.
    """
    return next((_SUFFIXES[suffix] for suffix in reversed(path.suffixes) if suffix in _SUFFIXES), "jsonl")
