"""Implements `headwater replay`: reads records from files and adjusts their times."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain as concatenated
from pathlib import Path
from typing import Literal

from headwater.errors import SetupError
from headwater.model.stream import Entity, event_time_field, find_chain
from headwater.record_files.event_times import EventTimes
from headwater.record_files.formats.base import DEFAULT_DIALECT, Dialect
from headwater.record_files.lowercase import lowercase
from headwater.record_files.record_file import STDIN, RecordFile

TimeMode = Literal["keep", "now", "shift"]
"""How the times of records are changed; the option --times of `headwater replay` describes each mode."""


@dataclass(slots=True)
class Replay:
    """Reads files as records of a stream.

    Members that the stream stores in lower case are converted.

    Attributes:
        chain: The chain of the stream.
        entity: The entity of the stream.
        paths: The files.
        format: The format of the files; empty to derive it from their names.
        time_mode: How the times of the records are changed.
        pace: The replay speed relative to the records' times; 0 means as fast as possible.
        skip_bad: Whether invalid records are skipped and counted; otherwise they raise SetupError.
        dialect: The format of CSV and TSV files.
    """

    chain: str
    entity: str
    paths: Sequence[Path]
    _: KW_ONLY
    format: str = ""
    time_mode: TimeMode = "keep"
    pace: float = 0.0
    skip_bad: bool = False
    dialect: Dialect = DEFAULT_DIALECT
    _entity: Entity | None = field(init=False)
    _lowercase: Callable[[bytes], bytes] = field(init=False)
    _files: list[RecordFile] = field(init=False)
    _event_times: EventTimes | None = field(init=False)

    def __post_init__(self) -> None:
        chain = find_chain(self.chain)
        entity = chain.entity(self.entity) if chain else None
        self._lowercase = lowercase(entity.lowercase_fields if entity else ())
        self._entity = entity
        self._files = self._record_files()
        name = event_time_field(self.chain, self.entity)
        self._event_times = None if name is None else EventTimes(name)

    def _record_files(self) -> list[RecordFile]:
        """Return the files. Nothing of them has been read yet."""
        return [
            RecordFile(path, self.format, self._entity, skip_bad=self.skip_bad, dialect=self.dialect)
            for path in self.paths
        ]

    def records(self) -> Iterator[bytes]:
        """Yield all records with adjusted times.

        With `pace`, each is yielded when it is due. Raises SetupError.
        """
        records: Iterator[bytes] = map(self._lowercase, concatenated.from_iterable(self._files))
        if self.time_mode == "keep" and not self.pace:
            return records
        if self._event_times is None:
            raise SetupError(f"Records of {self.chain}.{self.entity} have no event time: omit --times and --pace.")
        if self.pace:
            records = self._event_times.paced(records, self.pace)
        return self._with_adjusted_times(records, self._event_times)

    def _with_adjusted_times(self, records: Iterator[bytes], event_times: EventTimes) -> Iterator[bytes]:
        match self.time_mode:
            case "keep":
                return records
            case "now":
                return event_times.stamped_now(records)
            case "shift":
                return event_times.shifted(records, None if self.pace else self._seconds_since_newest(event_times))

    def _seconds_since_newest(self, event_times: EventTimes) -> int:
        """Return the whole seconds from the time of the newest record to now.

        Reads all files. `bytes_read` does not count this reading.
        """
        if STDIN in self.paths:
            raise SetupError(
                "--times shift without --pace needs the time of the newest record, which can't be found on standard "
                "input. Name files instead."
            )
        newest = event_times.newest(concatenated.from_iterable(self._record_files()))
        return 0 if newest is None else int((time.time() - newest) // 1)

    def size(self) -> int:
        """Return the total size of the files in bytes; 0 when it is unknown."""
        sizes = [file.size() for file in self._files]
        return sum(sizes) if all(sizes) else 0

    def bytes_read(self) -> float:
        """Return how many bytes of the files have been read."""
        return sum(file.bytes_read() for file in self._files)

    def notes(self) -> Iterable[str]:
        """Yield notes for the summary at the end."""
        if skipped := sum(file.skipped for file in self._files):
            yield f"{skipped} entries were not valid records and were skipped"
        yield from (file.warning for file in self._files if file.warning)
        if self._event_times is not None and self._event_times.records_without_time:
            yield f"{self._event_times.records_without_time} records have no known time and were written unchanged"
