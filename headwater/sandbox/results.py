"""Parses and validates the frames of the child: results, errors and questions.

The child is not trusted.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from headwater.model.outputs import MAX_OUTPUT_BYTES
from headwater.native import BytesColumn, split_lines
from headwater.sandbox.frames import ProtocolError

MAX_MESSAGE_BYTES = 1024
OUTPUT_SEPARATOR = b"\t"
"""The harness writes this between the outputs of one record. The JSON text of an output does not contain it."""
_MAX_DIGITS = 9


class ScriptError(NamedTuple):
    """Why a script could not process a record, or could not be loaded.

    Attributes:
        error: The class of the error, such as `TypeError`.
        message: The message of the error.
        line: The line in the script, counted from 1; None if it is unknown.
        column: The column in the line, counted from 1; None if it is unknown.
        attempts: How many times the script ran for the record.
    """

    error: str
    message: str
    line: int | None = None
    column: int | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the first `end` records of a segment.

    Attributes:
        end: The number of records.
        interrupted: Whether the time limit interrupted the record at index `end`.
        slow: The indexes of records that took more than 50 ms of wall time.
        unfinished: The indexes of records that did not settle within 16 passes, because each answer led to a new
            question. They run alone.
        lines: For each record b"" (dropped), b"!…" (an error) or its outputs, with OUTPUT_SEPARATOR between them.
        logs: The lines that the script printed.
        clean: Whether all lines are final: none is an error or may be too large, no record is slow or unfinished.
        has_multiple_outputs: Whether any line may contain more than one output.
    """

    end: int
    interrupted: bool
    slow: list[int]
    unfinished: list[int]
    lines: BytesColumn
    logs: list[str]
    clean: bool
    has_multiple_outputs: bool


_question = msgspec.json.Decoder(list[str | list[str]])


def parse_results(payload: bytes, summary: bytes, records: int) -> Results:
    """Parse the frames RESULTS and SUMMARY of a segment with this number of records.

    Raises ProtocolError.
    """
    *log_lines, head = summary.split(b"\n")
    try:
        end, interrupted, logged, slow, unfinished = head.split(b" ")
        count, slow_rows, unfinished_rows = int(end), _rows(slow), _rows(unfinished)
    except ValueError as error:
        raise ProtocolError("the summary of results has an unexpected form") from error
    stopped = interrupted == b"1"
    rows_fit = all(0 <= row < count for row in slow_rows + unfinished_rows)
    fits = 0 <= count <= records and logged == b"%d" % len(log_lines) and rows_fit
    # Each reply must make progress, so that a hostile child can't keep the parent in an endless loop.
    if not fits or (count == records if stopped else count == 0 < records):
        raise ProtocolError("the results don't fit the records of their segment")
    try:
        split = split_lines(payload, count, b"!", OUTPUT_SEPARATOR)
    except ValueError as error:
        raise ProtocolError("the results don't fit the records of their segment") from error
    is_small = split.lines.max_size <= MAX_OUTPUT_BYTES
    clean = is_small and not (slow_rows or unfinished_rows or split.has_first_byte)
    logs = [_log_line(line) for line in log_lines]
    return Results(count, stopped, slow_rows, unfinished_rows, split.lines, logs, clean, split.has_byte)


def _rows(text: bytes) -> list[int]:
    return [int(row) for row in text.split(b",")] if text else []


def parse_row(payload: bytes, expected: range) -> int:
    """Parse a frame TRACE: the index of a record in its segment. Raises ProtocolError."""
    if not payload.isdigit() or len(payload) > _MAX_DIGITS or int(payload) not in expected:
        raise ProtocolError("the index of a record is not in its segment")
    return int(payload)


def parse_error(line: bytes) -> ScriptError:
    """Parse a line `!"class","message",line,column`; 0,0 is an unknown place.

    Raises ProtocolError.
    """
    match _loads(b"[" + line[1:] + b"]"):
        case [str(name), str(message), int(row), int(column)]:
            short = _encodable(message).encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
            return ScriptError(_encodable(name), short, row or None, column or None)
    raise ProtocolError("an error line has an unexpected form")


def parse_question(payload: bytes) -> list[tuple[str, list[str]]]:
    """Parse a frame KEYS: dataset names and the values to look up, as the script wrote them.

    Raises ProtocolError.
    """
    try:
        flat: Any = _question.decode(payload)
    except msgspec.DecodeError:
        flat = _replace_lone_surrogates(_loads(payload))
    names, values = flat[::2], flat[1::2]
    types = {*map(type, names)} <= {str} and {*map(type, values)} <= {list}
    if len(names) != len(values) or not types:
        raise ProtocolError("a question has an unexpected form")
    return list(zip(names, values, strict=True))


def _replace_lone_surrogates(question: Any) -> list[str | list[str]]:
    """Replace each text that contains a lone surrogate by "".

    Neither the original nor "" can be a stored value or a dataset name, so the answer is the same.
    """
    match question:
        case [*parts] if all(isinstance(part, str | list) for part in parts):
            return [
                _empty_if_surrogates(part) if isinstance(part, str) else [_empty_if_surrogates(value) for value in part]
                for part in parts
            ]
    raise ProtocolError("a question has an unexpected form")


def _empty_if_surrogates(text: Any) -> str:
    if not isinstance(text, str):
        raise ProtocolError("a question has an unexpected form")
    return text if text == _encodable(text) else ""


def _log_line(line: bytes) -> str:
    text = _loads(line)
    if not isinstance(text, str):
        raise ProtocolError("a log line is not a string")
    return _encodable(text)


def _loads(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a frame is not valid JSON") from error


def _encodable(text: str) -> str:
    """Replace lone surrogates by `?`, because UTF-8 can't encode them."""
    return text.encode(errors="replace").decode()
