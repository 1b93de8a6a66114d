"""Warnings for the author of a script from a run on the stream's example record.

The API returns them when a script is saved.
"""

import re
from typing import Any

import msgspec

from headwater.errors import InvalidScript
from headwater.sandbox.results import OUTPUT_SEPARATOR, ScriptFailure
from headwater.sandbox.script_batch import ScriptBatch

_MAX_MEMBERS = 40
_MAX_SHOWN = 200
_UNDEFINED_OR_NULL = re.compile(r"\b(undefined|null)\b")


def warnings(script_batch: ScriptBatch, example: str) -> list[str]:
    """Return warnings about the run of the example (JSON text).

    Raises InvalidScript for a script that returns a Promise.
    """
    if script_batch.failures:
        return [_warning_of_failure(failure, example) for failure in script_batch.failures.values()]
    outputs = [text for text in (script_batch.outputs[0] or b"").split(OUTPUT_SEPARATOR) if text]
    if outputs and all(_is_error(text) for text in outputs):
        shown = outputs[0].decode(errors="replace")[:_MAX_SHOWN]
        return [f"The script turns the stream's example record into nothing but an error: {shown}."]
    return []


def _warning_of_failure(failure: ScriptFailure, example: str) -> str:
    if failure.error == "InvalidOutput" and "Promise" in failure.message:
        raise InvalidScript(
            "The script returns a Promise, which is an error of every record: nothing waits for a Promise. Take out "
            "`async` and `await`, and return the record itself."
        )
    place = f" in line {failure.line}, column {failure.column}" if failure.line else ""
    warning = f"The script fails on the stream's example record: {failure.error}: {failure.message}{place}."
    if failure.error == "TypeError" and _UNDEFINED_OR_NULL.search(failure.message):
        return f"{warning} {_describe_members(msgspec.json.decode(example))}"
    return warning


def _describe_members(example: dict[str, Any]) -> str:
    names = [f"`{name}`" for name in example]
    more = f" and {len(names) - _MAX_MEMBERS} more" if len(names) > _MAX_MEMBERS else ""
    return (
        f"A record of this stream is one object, not a block and not a list, with the members "
        f"{', '.join(names[:_MAX_MEMBERS])}{more}; GET /api/v1/flow/streams shows an example."
    )


def _is_error(text: bytes) -> bool:
    """Return whether an output is only an error, as `{"error": "Buffer is not defined"}`."""
    try:
        output = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):  # such as a lone surrogate in a name
        return False
    return "error" in output and output.keys() <= {"error", "message", "stack", "success"}
