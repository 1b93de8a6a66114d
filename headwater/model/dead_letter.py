"""Dead letters: the records that could not be processed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Self

ERROR_HEADER = "headwater-error"
MESSAGE_HEADER = "headwater-message"
TRANSFORM_HEADER = "headwater-transform"
LINE_HEADER = "headwater-line"
COLUMN_HEADER = "headwater-column"
ATTEMPTS_HEADER = "headwater-attempts"
TIMESTAMP_HEADER = "headwater-timestamp"
"""The timestamp of the source record in ms since the epoch. Letters of older versions do not have it."""
REDRIVEN_HEADER = "headwater-redriven"
"""In a record that a redrive wrote (an output, or a new letter): the id of the redrive."""
STUB_HEADER = "headwater-stub"
"""Marks a letter whose value is a stub.

A stub replaces a source record that the topic could not take, and says why.
"""

TOO_LARGE_REASON = "record too large for the dead-letter topic"
REJECTED_REASON = "record rejected by Kafka for the dead-letter topic"
_STUB_STARTS = tuple(b'{"headwater": "%b", "sha256": "' % each.encode() for each in (TOO_LARGE_REASON, REJECTED_REASON))

MAX_HEADER_BYTES = 1024
"""The maximum size of the value of a letter's header, such as `headwater-message`."""
MAX_LETTERS_PER_PAGE = 1_000
MAX_REDRIVEN_IDS = 10_000
"""How many letters a request to redrive may name."""
LETTER_CURSOR_PATTERN = r"^[0-9]{1,7}-[0-9]{1,19}(_[0-9]{1,7}-[0-9]{1,19})*$"
ID_PATTERN = r"^[0-9]{1,7}/[0-9]{1,19}$"

RedriveOutcome = Literal["delivered", "dropped", "failed"]
"""What became of a letter in a redrive: an output was delivered, no output was made, or it has failed again."""


class LetterId(NamedTuple):
    """The position of a letter in the dead-letter topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the id in a text of the form `<partition>/<offset>`. Raises ValueError."""
        if not re.fullmatch(ID_PATTERN, text):
            raise ValueError('must be the id of a dead letter, such as "0/17"')
        partition, _, offset = text.partition("/")
        return cls(int(partition), int(offset))


class LetterKind(NamedTuple):
    """The class and the place of an error, by which letters are summarized.

    Attributes:
        error: The class of the error.
        component: The uid of the transform, or the name of the sink.
        line: The line in the script, from 1; None without a position in a script.
    """

    error: str
    component: str
    line: int | None


OTHER_LETTERS = LetterKind("other", "", None)
"""The kind under which letters are counted when there are too many kinds to count each one."""


@dataclass(frozen=True, slots=True)
class LastRedrive:
    """When a letter was last redriven, and with which outcome."""

    time: datetime
    outcome: RedriveOutcome


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed.

    Attributes:
        id: The position of the letter in the dead-letter topic.
        time: The timestamp of the letter: that of its source record, or the time of the failure when that timestamp was
            more than an hour old or more than ten minutes ahead.
        kind: The class and the place of the error.
        message: The message of the error.
        column: The column in the line of the script, from 1.
        attempts: How often a script tried to process the record, when its process died or it exceeded a limit; else 1.
        revision: The revision of the configuration that could not process the record.
        source: The position of the source record, as `headwater-src` names it (model/outputs.py): on Kafka,
            `<topic>/<partition>/<offset>/<index>`.
        value: The bytes of the source record; None is a Kafka tombstone.
        redriven: The last redrive of the letter; None when it was never redriven.
    """

    id: LetterId
    time: datetime
    kind: LetterKind
    message: str
    column: int | None
    attempts: int
    revision: int | None
    source: str
    value: bytes | None
    redriven: LastRedrive | None = None


class LetterHeaders:
    """Reads the headers of a letter as texts and numbers."""

    def __init__(self, headers: Mapping[str, bytes | None]) -> None:
        self._headers = headers

    def text(self, name: str) -> str:
        """Return the text of a header; empty when the letter does not have the header."""
        return (self._headers.get(name) or b"").decode(errors="replace")

    def integer(self, name: str) -> int | None:
        """Return the number in a header; None when there is none."""
        text = self.text(name)
        return int(text) if re.fullmatch("[0-9]{1,19}", text) else None

    def has_kind(self, error: str | None, component: str | None) -> bool:
        """Return whether the letter has this class and place of the error; None means any."""
        return (error is None or self._headers.get(ERROR_HEADER) == error.encode()) and (
            component is None or self._headers.get(TRANSFORM_HEADER) == component.encode()
        )

    @property
    def is_stub(self) -> bool:
        """Whether the letter has a stub in place of its source record.

        Stubs of older versions do not have the header, see is_stub_value.
        """
        return STUB_HEADER in self._headers

    @property
    def kind(self) -> LetterKind:
        """The class and the place of the error."""
        return LetterKind(self.text(ERROR_HEADER), self.text(TRANSFORM_HEADER), self.integer(LINE_HEADER))


_TOTAL_PREFIX = "letters/"


def is_stub_value(value: bytes | None) -> bool:
    """Return whether the value of a letter is a stub. Older stubs have no STUB_HEADER."""
    return value is not None and value.startswith(_STUB_STARTS)


def header_text(text: str) -> str:
    """Return the text that a header contains.

    It is cut between characters to at most MAX_HEADER_BYTES in UTF-8.
    """
    data = text.encode(errors="replace")
    return data[:MAX_HEADER_BYTES].decode(errors="ignore")


def letter_total_name(kind: LetterKind) -> str:
    """Return the name of the total of letters of this kind, see model.metric.PartitionCounts."""
    return _TOTAL_PREFIX + json.dumps(kind, separators=(",", ":"))


def parse_letter_total_name(name: str) -> LetterKind | None:
    """Return the kind of the letters that a total counts; None for any other total.

    The total of all kinds that are not counted separately has the kind OTHER_LETTERS.
    """
    if not name.startswith(_TOTAL_PREFIX):
        return None
    text = name.removeprefix(_TOTAL_PREFIX)
    return LetterKind(*json.loads(text)) if text.startswith("[") else OTHER_LETTERS


def encode_letter_cursor(positions: Mapping[int, int]) -> str:
    """Return the cursor of a page that continues before these offsets, by partition."""
    return "_".join(f"{partition}-{offset}" for partition, offset in sorted(positions.items()))


def parse_letter_cursor(cursor: str) -> dict[int, int]:
    """Return the offsets, by partition, before which the page continues. Raises ValueError."""
    if not re.fullmatch(LETTER_CURSOR_PATTERN, cursor):
        raise ValueError("must be the cursor of the previous page")
    pairs = (part.split("-") for part in cursor.split("_"))
    return {int(partition): int(offset) for partition, offset in pairs}
