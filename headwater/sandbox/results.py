"""What the child sends, parsed and checked: results, errors, questions. The child is not trusted."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.native import Texts, split_lines
from headwater.sandbox.frames import Malformed

MAX_MESSAGE_BYTES = 1024
_MAX_DIGITS = 9


class ScriptError(NamedTuple):
    """Why a script could not process a record. Lines and columns count from 1."""

    error: str
    message: str
    line: int | None = None
    column: int | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the first records of a segment.

    Attributes:
        end: How many records.
        interrupted: Whether the record at `end` was running when the time was over.
        slow: Records that took more than 50 ms of wall time.
        unfinished: Records that have to run alone, since their questions depend on too many answers.
        lines: For each record b"" (dropped), b"!…" (an error) or the outputs with tabs between.
        logs: What the records printed.
        clean: Whether all lines are final: none is an error or may be too large, no record is slow or unfinished.
        several: Whether a line may have more than one output.
    """

    end: int
    interrupted: bool
    slow: list[int]
    unfinished: list[int]
    lines: Texts
    logs: list[str]
    clean: bool
    several: bool


_question = msgspec.json.Decoder(list[str | list[str]])


def parse_results(payload: bytes, summary: bytes, records: int) -> Results:
    """Parse the frames RESULTS and SUMMARY for a segment of so many records. Raises Malformed."""
    *log_lines, head = summary.split(b"\n")
    try:
        end, interrupted, logged, slow, unfinished = head.split(b" ")
        count, slow_rows, unfinished_rows = int(end), _rows(slow), _rows(unfinished)
    except ValueError as error:
        raise Malformed("a results header") from error
    stopped = interrupted == b"1"
    rows_fit = all(0 <= row < count for row in slow_rows + unfinished_rows)
    fits = 0 <= count <= records and logged == b"%d" % len(log_lines) and rows_fit
    # Every answer must bring the batch forward.
    if not fits or (count == records if stopped else count == 0 < records):
        raise Malformed("results that don't fit their records")
    try:
        split = split_lines(payload, count, b"!", b"\t")
    except ValueError as error:
        raise Malformed("results that don't fit their records") from error
    clean = not slow_rows and not unfinished_rows and split.lines.largest <= MAX_OUTPUT_BYTES and not split.marked
    logs = [_log_line(line) for line in log_lines]
    return Results(count, stopped, slow_rows, unfinished_rows, split.lines, logs, clean, split.with_letter)


def _rows(text: bytes) -> list[int]:
    return [int(row) for row in text.split(b",")] if text else []


def parse_row(payload: bytes, expected: range) -> int:
    """Parse a frame TRACE: the number of a record. Raises Malformed."""
    if not payload.isdigit() or len(payload) > _MAX_DIGITS or int(payload) not in expected:
        raise Malformed("the number of a record")
    return int(payload)


def parse_error(line: bytes) -> ScriptError:
    """Parse a line `!"class","message",line,column`; place 0,0 is unknown. Raises Malformed."""
    match _loads(b"[" + line[1:] + b"]"):
        case [str(name), str(message), int(row), int(column)]:
            short = _printable(message).encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
            return ScriptError(_printable(name), short, row or None, column or None)
    raise Malformed("an error line")


def parse_question(payload: bytes) -> list[tuple[str, list[str]]]:
    """Parse a frame KEYS: dataset names and the values to look up, as the script wrote them. Raises Malformed."""
    try:
        flat: Any = _question.decode(payload)
    except msgspec.DecodeError:
        flat = _without_surrogates(_loads(payload))
    names, values = flat[::2], flat[1::2]
    types = {*map(type, names)} <= {str} and {*map(type, values)} <= {list}
    if len(names) != len(values) or not types:
        raise Malformed("a question")
    return list(zip(names, values, strict=True))


def _without_surrogates(question: Any) -> list[str | list[str]]:
    """Text with lone surrogates is in no set and names no dataset. Nor does the empty text, which takes its place."""
    match question:
        case [*parts] if all(isinstance(part, str | list) for part in parts):
            return [_known(part) if isinstance(part, str) else [_known(value) for value in part] for part in parts]
    raise Malformed("a question")


def _known(text: Any) -> str:
    if not isinstance(text, str):
        raise Malformed("a question")
    return text if text == _printable(text) else ""


def _log_line(line: bytes) -> str:
    text = _loads(line)
    if not isinstance(text, str):
        raise Malformed("a log line")
    return _printable(text)


def _loads(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("no JSON") from error


def _printable(text: str) -> str:
    """Without lone surrogates, which have no UTF-8 form."""
    return text.encode(errors="replace").decode()
