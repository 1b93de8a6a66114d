"""Converts errors of scripts that can't be loaded to messages for their authors."""

from headwater.errors import InvalidScript
from headwater.sandbox.results import ScriptError

_TOP_LEVEL_USES = {
    "time": "The script asks for the time outside of `process(record)`",
    "random": "The script asks for a random number outside of `process(record)`",
}
_TOP_LEVEL_ADVICE = (
    "the top level runs once for each start of a worker, so its results would differ from worker to worker. Ask inside "
    "of `process(record)`, where the time and random numbers follow the record."
)


def script_refused(error: ScriptError) -> InvalidScript:
    """Convert the child's error about a script that can't be loaded."""
    return InvalidScript(_detail(error), error.line, error.column, error=error.error, reason=error.message)


def _detail(error: ScriptError) -> str:
    if error.error == "NoProcess":
        return "The script defines no function `process(record)` (or `transform`). Add one."
    if error.error == "Timeout":
        return f"The script can't be loaded: {error.message}."
    place = f" in line {error.line}, column {error.column}" if error.line else ""
    if error.error == "OutsideOfRecord":
        return f"{_TOP_LEVEL_USES.get(error.message, error.message)}{place}: {_TOP_LEVEL_ADVICE}"
    return f"The script can't be loaded: {error.error}: {error.message}{place}."
