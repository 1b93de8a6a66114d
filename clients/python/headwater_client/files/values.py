"""Values of filters in files: reading, normalising, and the digest that servers compute."""

import csv
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from headwater_client.files.errors import FolderError

MAX_VALUE_CHARS: Final = 1_024
DIGEST_BITS: Final = 128
HASH_BATCH_VALUES: Final = 100_000
"""The number of values that are encoded and hashed at once."""
_TRIMMED_RANGES: Final = (
    *(range(0x09, 0x0E), range(0x1C, 0x21), (0x85, 0xA0, 0x1680, 0x180E), range(0x2000, 0x2010), (0x2028, 0x2029)),
    *(range(0x202A, 0x2030), range(0x205F, 0x2065), range(0x2066, 0x206A), (0x3000, 0xFEFF)),
)
TRIMMED: Final = "".join(chr(code) for codes in _TRIMMED_RANGES for code in codes)
"""White space, the byte order mark, and the joiners and marks of direction that editors put around pasted text."""
SETTLED_AFTER_S: Final = 2.0
"""The summary of a file that was changed less than this ago is not cached.

The file may change again, and keep the same time of change.
"""


def _hex(total: int) -> str:
    return f"{total % (1 << DIGEST_BITS):032x}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of distinct values, and their digest."""

    count: int
    digest: str


@dataclass(frozen=True, slots=True)
class DesiredValues:
    """The values that a filter should have.

    Attributes:
        mode: `initial` or `replace`.
        label: What error messages call the values: the path of the file, or `values`.
        texts: The values of a list in the pipeline's file.
        path: The file; None for a list.
        column: The column of a CSV file; empty when it has only one.
    """

    mode: Literal["initial", "replace"]
    label: str
    texts: tuple[str, ...] = ()
    path: Path | None = None
    column: str = ""

    def normalised(self) -> Iterator[str]:
        """Yield the values as servers store them: trimmed, in lower case; they may repeat.

        Raises FolderError.
        """
        texts = iter(self.texts) if self.path is None else self._texts_of_file(self.path)
        for value in normalised(texts):
            if len(value) > MAX_VALUE_CHARS:
                raise FolderError(f"{self.label} has a value of more than {MAX_VALUE_CHARS} characters.")
            yield value

    def _texts_of_file(self, path: Path) -> Iterator[str]:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from (self._column(csv.reader(file)) if path.suffix.lower() == ".csv" else file)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise FolderError(f"{self.label} can't be read: {error}.") from error

    def _column(self, rows: Iterator[list[str]]) -> Iterator[str]:
        head = next(rows, [])
        if self.column and self.column not in head:
            raise FolderError(f"{self.label} has no column {self.column!r}; it has: {', '.join(head) or 'none'}.")
        if not self.column and len(head) > 1:
            raise FolderError(
                f"{self.label} has several columns ({', '.join(head)}). Name one: `column:` in a file of a pipeline, "
                "--column of a command."
            )
        index = head.index(self.column) if self.column else 0
        return (row[index] for row in rows if len(row) > index)

    def summary(self) -> Summary:
        """Return the number and the digest of the distinct values.

        The summary of an unchanged file is remembered.
        """
        if self.path is None:
            return summarise(self.normalised())
        return _remembered(self.path, self.column, lambda: summarise(self.normalised()))


class ReiterableValues:
    """The normalised values of a filter.

    Each iteration reads the values again, so that a request can be retried.

    Attributes:
        path: The file with the values; None for a list.
    """

    def __init__(self, desired: DesiredValues) -> None:
        self._desired = desired
        self.path = desired.path

    def __iter__(self) -> Iterator[str]:
        return self._desired.normalised()


def normalised(texts: Iterable[str]) -> Iterator[str]:
    """Yield the values that are not empty, trimmed and in lower case.

    >>> list(normalised([" 0xAB ", "", "\\ufeffa"]))
    ['0xab', 'a']
    """
    return filter(None, (text.strip(TRIMMED).lower() for text in texts))


def summarise(values: Iterable[str]) -> Summary:
    """Return the number and the digest of distinct values.

    The digest is the sum of the 128-bit XXH3 of each distinct value in UTF-8, modulo 2^128, in hex. The order of the
    values does not matter.

    >>> summarise(["a", "b", "a"]) == summarise(["b", "a"])
    True
    >>> summarise([])
    Summary(count=0, digest='00000000000000000000000000000000')
    """
    from xxhash import xxh3_128_intdigest

    hashes: set[int] = set()
    rest = iter(values)
    while batch := [value.encode() for value in islice(rest, HASH_BATCH_VALUES)]:
        hashes.update(map(xxh3_128_intdigest, batch))
    return Summary(len(hashes), _hex(sum(hashes)))


_summaries: dict[str, tuple[list[int] | None, Summary]] = {}
"""The summaries of files that this process has read, with the state of the file."""


def _remembered(path: Path, column: str, compute: Callable[[], Summary]) -> Summary:
    """Return the summary of a file, which is computed again only when the file has changed.

    The cache only saves time: without it, the file is read again.
    """
    name, state = f"{path.resolve()}\0{column}", _state(path)
    if name in _summaries and _summaries[name][0] == state:
        return _summaries[name][1]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "headwater", "values.json")
    entries = _read(cache)
    summary = _known(entries.get(name), state)
    if summary is None:
        summary = compute()
        if state is not None and state == _state(path) and time.time() - state[1] / 1e9 > SETTLED_AFTER_S:
            _write(cache, entries | {name: [state, summary.count, summary.digest]})
    _summaries[name] = state, summary
    return summary


def _known(entry: object, state: list[int] | None) -> Summary | None:
    match entry:
        case [stored, int(count), str(digest)] if stored == state:
            return Summary(count, digest)
    return None


def _read(cache: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        entries: dict[str, object] = json.loads(cache.read_text("utf-8"))
        return entries
    return {}


def _state(path: Path) -> list[int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _write(cache: Path, entries: dict[str, object]) -> None:
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary = cache.with_name(f"{cache.name}.{os.getpid()}")
        temporary.write_text(json.dumps(entries), "utf-8")
        temporary.replace(cache)
