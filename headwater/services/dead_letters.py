"""Lists the dead letters of a deployment."""

from dataclasses import dataclass
from datetime import UTC, datetime

from headwater.brokers.topic_history import LogRecord, TopicHistory
from headwater.model.dead_letter import (
    ATTEMPTS_HEADER,
    COLUMN_HEADER,
    MESSAGE_HEADER,
    DeadLetter,
    LetterHeaders,
    LetterId,
    encode_cursor,
    parse_cursor,
)
from headwater.model.deployment import Deployment, dead_letter_topic
from headwater.model.outputs import CONFIG_HEADER, SOURCE_HEADER
from headwater.services.newest_first import NewestFirst

MAX_SCANNED = 20_000
"""How many letters a page looks at to find those that the request selects."""
MAX_SCANNED_BYTES = 64 << 20
"""A page ends after letters of together this size."""
MAX_PAGE_BYTES = 8 << 20
"""A page ends before its records exceed this size. It has at least one letter."""


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Selects letters; None selects letters with any value.

    Attributes:
        error: The class of the error.
        transform_uid: The uid of the transform, or the name of the sink.
    """

    error: str | None = None
    transform_uid: str | None = None

    def selects(self, error: str, transform_uid: str) -> bool:
        """Return whether a letter with this class and place of the error is selected."""
        return self.error in (None, error) and self.transform_uid in (None, transform_uid)


@dataclass(frozen=True, slots=True)
class LetterPage:
    """A page of letters, the newest first.

    Attributes:
        letters: The letters.
        cursor: The cursor of the next page; None on the last page.
    """

    letters: list[DeadLetter]
    cursor: str | None


class DeadLetters:
    """Reads the dead letters of deployments.

    The methods may block, and raise BrokerUnavailable.
    """

    def __init__(self, history: TopicHistory) -> None:
        self._history = history

    def page(self, deployment: Deployment, selected: LetterFilter, cursor: str | None, limit: int) -> LetterPage:
        """Return letters, the newest first.

        A page looks at MAX_SCANNED letters at most, so that it may have fewer than `limit` letters although its cursor
        leads to further ones.
        """
        topic = dead_letter_topic(deployment.config_id)
        ranges = self._history.ranges(topic)
        ends = {number: each.end for number, each in ranges.items()} if cursor is None else parse_cursor(cursor)
        records = NewestFirst(self._history, topic, ends, ranges)
        found = _select(records, selected, limit)
        has_more = records.peek() is not None
        next_cursor = encode_cursor(records.positions()) if has_more else None
        return LetterPage([letter_of(record) for record in found], next_cursor)


def _select(records: NewestFirst, selected: LetterFilter, limit: int) -> list[LogRecord]:
    """Take the next records that are selected, at most `limit`."""
    found: list[LogRecord] = []
    page_bytes = scanned_bytes = scanned = 0
    while len(found) < limit and scanned < MAX_SCANNED and scanned_bytes < MAX_SCANNED_BYTES:
        record = records.peek()
        if record is None:
            break
        size, kind = len(record.value or b""), LetterHeaders(record.headers).kind
        is_selected = selected.selects(kind.error, kind.transform_uid)
        if is_selected and found and page_bytes + size > MAX_PAGE_BYTES:
            break
        next(records)
        scanned, scanned_bytes = scanned + 1, scanned_bytes + size
        if is_selected:
            page_bytes += size
            found.append(record)
    return found


def letter_of(record: LogRecord) -> DeadLetter:
    """Return the letter in a record of a dead-letter topic."""
    headers = LetterHeaders(record.headers)
    return DeadLetter(
        id=LetterId(record.partition, record.offset),
        time=datetime.fromtimestamp(record.timestamp / 1000, UTC),
        kind=headers.kind,
        message=headers.text(MESSAGE_HEADER),
        column=headers.integer(COLUMN_HEADER),
        attempts=headers.integer(ATTEMPTS_HEADER) or 1,
        revision=headers.integer(CONFIG_HEADER),
        source=headers.text(SOURCE_HEADER),
        value=record.value,
    )
