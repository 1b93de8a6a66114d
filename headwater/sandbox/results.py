"""Parses and validates frames of the child: results, errors and lookup requests.

The child is not trusted.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from headwater.model.outputs import MAX_OUTPUT_BYTES
from headwater.native import BytesColumn, split_lines
from headwater.sandbox.frames import ProtocolError

MAX_ERROR_MESSAGE_BYTES = 1024
"""A longer message of a script's error is cut."""
OUTPUT_SEPARATOR = b"\t"
"""The harness writes this between the outputs of one record. The JSON text of an output does not contain it."""
_MAX_DIGITS = 9
_LOOKUP_REQUEST_DECODER = msgspec.json.Decoder(list[str | list[str]])


class ScriptFailure(NamedTuple):
    """Why a script could not process a record, or could not be loaded.

    Attributes:
        error: The class of the error, such as `TypeError`.
        message: The message of the error.
        line: The line in the script, counted from 1; None if it is unknown.
        column: The column in the line, counted from 1; None if it is unknown.
        attempts: How many times the script ran for the record, for `Timeout`, `SandboxCrash` and `OutOfMemory`.
    """

    error: str
    message: str
    line: int | None = None
    column: int | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the first `record_count` records of a segment.

    Attributes:
        record_count: The number of records that have results.
        interrupted: Whether the time limit interrupted the record after these records.
        slow_indexes: The indexes of records that took more than 50 ms of wall time, alone or together with the up to 7
            records that were timed with them.
        unfinished_indexes: The indexes of records without a final output after 16 passes. A pass runs those records of
            the segment that have no final output yet; the next pass follows when the values are looked up. For these
            records each answer led to a new lookup. They run alone.
        lines: For each record b"" (dropped), b"!…" (an error) or its outputs, with OUTPUT_SEPARATOR between them.
        logs: The lines that the script printed.
        need_no_checks: Whether all lines can be stored as they are: none is an error or may be too large, and no record
            is slow or unfinished.
        has_multiple_outputs: Whether any line may contain more than one output.
    """

    record_count: int
    interrupted: bool
    slow_indexes: list[int]
    unfinished_indexes: list[int]
    lines: BytesColumn
    logs: list[str]
    need_no_checks: bool
    has_multiple_outputs: bool


def parse_results(payload: bytes, summary: bytes, sent_count: int) -> Results:
    """Parse the frames RESULTS and SUMMARY of a segment with this number of records.

    Raises ProtocolError.
    """
    *log_lines, counts_line = summary.split(b"\n")
    try:
        results_count, interrupted_flag, log_count, slow, unfinished = counts_line.split(b" ")
        count, slow_indexes, unfinished_indexes = int(results_count), _indexes(slow), _indexes(unfinished)
    except ValueError as error:
        raise ProtocolError("the summary of results has an unexpected form") from error
    interrupted = interrupted_flag == b"1"
    indexes_fit = all(0 <= index < count for index in slow_indexes + unfinished_indexes)
    fits = 0 <= count <= sent_count and log_count == b"%d" % len(log_lines) and indexes_fit
    # Each pair of frames must make progress, so that a hostile child can't keep the parent in an endless loop.
    interrupted_nothing = interrupted and count == sent_count
    made_no_progress = not interrupted and count == 0 and sent_count > 0
    if not fits or interrupted_nothing or made_no_progress:
        raise ProtocolError("the results don't fit the records of their segment")
    try:
        split = split_lines(payload, count, b"!", OUTPUT_SEPARATOR)
    except ValueError as error:
        raise ProtocolError("the results don't fit the records of their segment") from error
    is_small = split.lines.max_size <= MAX_OUTPUT_BYTES
    has_errors = split.has_first_byte
    need_no_checks = is_small and not (slow_indexes or unfinished_indexes or has_errors)
    logs = [_log_line(line) for line in log_lines]
    return Results(
        count, interrupted, slow_indexes, unfinished_indexes, split.lines, logs, need_no_checks, split.has_byte
    )


def _indexes(text: bytes) -> list[int]:
    return [int(index) for index in text.split(b",")] if text else []


def parse_trace(payload: bytes, expected: range) -> int:
    """Parse a frame TRACE, the index of a record in its segment. Raises ProtocolError."""
    if not payload.isdigit() or len(payload) > _MAX_DIGITS or int(payload) not in expected:
        raise ProtocolError("the index of a record is not in its segment")
    return int(payload)


def parse_error(line: bytes) -> ScriptFailure:
    """Parse an error line `!"class","message",line,column`, in which 0,0 is an unknown place.

    Raises ProtocolError.
    """
    match _loads(b"[" + line[1:] + b"]"):
        case [str(name), str(message), int(row), int(column)]:
            shortened = _encodable(message).encode()[:MAX_ERROR_MESSAGE_BYTES].decode(errors="ignore")
            return ScriptFailure(_encodable(name), shortened, row or None, column or None)
    raise ProtocolError("an error line has an unexpected form")


def parse_lookup_request(payload: bytes) -> list[tuple[str, list[str]]]:
    """Parse the dataset names and values of a frame LOOKUP_REQUEST, as the script wrote them.

    Raises ProtocolError.
    """
    try:
        flat: Any = _LOOKUP_REQUEST_DECODER.decode(payload)
    except msgspec.DecodeError:
        flat = _replace_lone_surrogates(_loads(payload))
    names, values = flat[::2], flat[1::2]
    has_types = {*map(type, names)} <= {str} and {*map(type, values)} <= {list}
    if len(names) != len(values) or not has_types:
        raise ProtocolError("a lookup request has an unexpected form")
    return list(zip(names, values, strict=True))


def _replace_lone_surrogates(request: Any) -> list[str | list[str]]:
    """Replace each string that contains a lone surrogate by "".

    Neither the original string nor "" can be a stored value or a dataset name, so the answer is the same.
    """
    match request:
        case [*parts] if all(isinstance(part, str | list) for part in parts):
            return [
                _empty_if_surrogates(part) if isinstance(part, str) else [_empty_if_surrogates(value) for value in part]
                for part in parts
            ]
    raise ProtocolError("a lookup request has an unexpected form")


def _empty_if_surrogates(text: Any) -> str:
    if not isinstance(text, str):
        raise ProtocolError("a lookup request has an unexpected form")
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
