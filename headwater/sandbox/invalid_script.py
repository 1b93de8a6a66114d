"""Converts the reasons why scripts can't be loaded to errors for their authors."""

from headwater.errors import InvalidScript
from headwater.sandbox.results import ScriptFailure

_TOP_LEVEL_USES = {
    "time": "The script asks for the time outside of `process(record)`",
    "random": "The script asks for a random number outside of `process(record)`",
}
_TOP_LEVEL_ADVICE = (
    "the top level runs again whenever a process loads the script, so its results would differ. Ask inside of "
    "`process(record)`, where the time and random numbers are derived from the record."
)


def invalid_script(failure: ScriptFailure) -> InvalidScript:
    """Return the error for a script that the child could not load."""
    return InvalidScript(_detail(failure), failure.line, failure.column, error=failure.error, reason=failure.message)


def _detail(failure: ScriptFailure) -> str:
    if failure.error == "NoProcess":
        return "The script defines no function `process(record)` (or `transform`). Add one."
    if failure.error == "Timeout":
        return f"The script can't be loaded: {failure.message}."
    place = f" in line {failure.line}, column {failure.column}" if failure.line else ""
    if failure.error == "OutsideOfRecord":
        return f"{_TOP_LEVEL_USES.get(failure.message, failure.message)}{place}: {_TOP_LEVEL_ADVICE}"
    return f"The script can't be loaded: {failure.error}: {failure.message}{place}."
