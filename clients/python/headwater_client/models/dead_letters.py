"""Dead letters: records that could not be processed."""

from datetime import datetime
from typing import Any

from headwater_client.model import Model


class Redriven(Model, frozen=True, kw_only=True):
    """A redrive of a letter.

    Attributes:
        outcome: `delivered` when the letter gave outputs, `dropped` or `failed`.
    """

    time: datetime
    outcome: str


class DeadLetter(Model, frozen=True, kw_only=True):
    """A record that could not be processed, and why.

    Attributes:
        id: The position of the letter, `<partition>/<offset>`.
        error: The class of the error.
        transform_uid: The uid of the transform, or the name of the sink.
        source: The position of the source record.
        record_base64: In place of `record`, when it is not JSON.
        redriven: The last redrive of the letter; None when there was none.
    """

    id: str
    time: datetime
    error: str
    message: str
    transform_uid: str
    line: int | None
    column: int | None
    attempts: int
    revision: int | None
    source: str
    record: Any = None
    record_base64: str | None = None
    redriven: Redriven | None = None


class DeadLetterPage(Model, frozen=True, kw_only=True):
    """One page of dead letters, newest first. It may be empty although there is a next page."""

    items: list[DeadLetter]
    cursor: str | None


class LetterGroup(Model, frozen=True, kw_only=True):
    """The dead letters with one class and place of the error.

    Attributes:
        count: How many letters were written since the pipeline was deployed.
        example: The id of the newest letter of the group; None when none of the newest 5,000 letters belongs to it, and
            for the group `other`.
    """

    error: str
    transform_uid: str
    line: int | None
    count: int
    first: datetime
    last: datetime
    example: str | None


class LetterSummary(Model, frozen=True, kw_only=True):
    """The counts of the dead letters, the group with the newest letter first."""

    items: list[LetterGroup]


class StartedRedrive(Model, frozen=True, kw_only=True):
    """A redrive that was accepted; for a dry run it has no id."""

    requested: int
    id: str = ""


class Redrive(Model, frozen=True, kw_only=True):
    """The state of a redrive. The counts are counts of letters, not of outputs.

    Attributes:
        state: `running`, `done`, or `stopped` when the pipeline was torn down before the end.
    """

    state: str
    requested: int
    delivered: int
    dropped: int
    failed: int
