"""Composition of `headwater replay`: what becomes of files' records on their way into a stream."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain as concatenated
from pathlib import Path
from typing import Literal

from headwater.errors import SetupError
from headwater.ingest.files import STDIN, RecordFile
from headwater.ingest.formats.base import PLAIN, Dialect
from headwater.ingest.lowercase import lowercase
from headwater.ingest.times import EventTimes
from headwater.model.stream import event_time, find_chain

Times = Literal["keep", "now", "shift"]


@dataclass(slots=True)
class Replay:
    """Files as records of a stream.

    times: what becomes of theirs. pace: how many times as fast as these tell; 0: as fast as possible. dialect: how
    text with columns is written. Members that the stream stores in lower-case become so.
    """

    chain: str
    entity: str
    paths: Sequence[Path]
    format: str = ""
    times: Times = "keep"
    pace: float = 0.0
    skip_bad: bool = False
    dialect: Dialect = PLAIN
    _lowercase: Callable[[bytes], bytes] = field(init=False)
    _files: list[RecordFile] = field(init=False)
    _times: EventTimes | None = field(init=False)

    def __post_init__(self) -> None:
        chain = find_chain(self.chain)
        entity = chain.entity(self.entity) if chain else None
        self._lowercase = lowercase(entity.lowercase if entity else ())
        self._files = [
            RecordFile(path, self.format, entity, skip_bad=self.skip_bad, dialect=self.dialect) for path in self.paths
        ]
        name = event_time(self.chain, self.entity)
        self._times = None if name is None else EventTimes(name)

    def records(self) -> Iterator[bytes]:
        """All records, each when it is due, with the times that they are to have. Raises SetupError."""
        records = self._all()
        if self.times == "keep" and not self.pace:
            return records
        if self._times is None:
            raise SetupError(f"Records of {self.chain}.{self.entity} carry no time: leave out --times and --pace.")
        if self.pace:
            records = self._times.paced(records, self.pace)
        return self._moved(records, self._times)

    def _all(self) -> Iterator[bytes]:
        return map(self._lowercase, concatenated.from_iterable(self._files))

    def _moved(self, records: Iterator[bytes], times: EventTimes) -> Iterator[bytes]:
        match self.times:
            case "keep":
                return records
            case "now":
                return times.at_now(records)
            case "shift":
                return times.shifted(records, None if self.pace else self._until_now(times))

    def _until_now(self, times: EventTimes) -> int:
        """Whole seconds from the newest record to now. Reads all files."""
        if STDIN in self.paths:
            raise SetupError("--times shift without --pace makes the newest record now: name files to look for it in.")
        newest = times.newest(self._all())
        return 0 if newest is None else int((time.time() - newest) // 1)

    def size(self) -> int:
        """Bytes of all files; 0 when nobody knows."""
        sizes = [file.size() for file in self._files]
        return sum(sizes) if all(sizes) else 0

    def done(self) -> float:
        """How many of these bytes are read."""
        return sum(file.done() for file in self._files)

    def notes(self) -> Iterable[str]:
        """What else there is to tell at the end."""
        if bad := sum(file.bad for file in self._files):
            yield f"{bad} were no records and are left out"
        yield from (file.warning for file in self._files if file.warning)
        if self._times is not None and self._times.without:
            yield f"{self._times.without} carry no time that is known, and stay as they are"
