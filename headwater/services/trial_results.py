"""Collects the results of the records that a trial shows, and the totals of all records."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from headwater.model.record import Failure
from headwater.model.trial import ErrorGroup, Outcome, TrialRecord, TrialStep, TrialSummary, TrialTransformTotals
from headwater.services.trial_runs import MAX_LOG_LINES, shown_size

MAX_RESPONSE_BYTES = 8 << 20
MAX_ERROR_GROUPS = 20
"""The maximum number of groups of errors in a summary; the largest ones are kept."""
_MAX_COUNTED_GROUPS = 1_000
_TOO_LARGE = f"the response would be larger than {MAX_RESPONSE_BYTES >> 20} MiB"


class ShownRecords:
    """The results of the first records of a trial, as far as a response can show them.

    Args:
        show_all: Whether records that do not fit into the response are shown too, as unfinished and without outputs.
            Otherwise the first record that does not fit is shown without its outputs, and later records are left out.
    """

    def __init__(self, *, show_all: bool) -> None:
        self._show_all = show_all
        self.remaining_bytes = MAX_RESPONSE_BYTES
        self.records: list[TrialRecord] = []

    @property
    def is_full(self) -> bool:
        """Whether no further record is shown."""
        return self.remaining_bytes < 0 and not self._show_all

    def add(self, value: bytes | None, record: TrialRecord) -> None:
        """Add the result of the next record.

        Args:
            value: The record, when the response shows it; otherwise None.
            record: The result.
        """
        self.remaining_bytes -= len(value or b"")
        steps: list[TrialStep] = [step for step in record.steps if self._spend([*step.outputs, *step.logs])]
        if len(steps) == len(record.steps) and self._spend(record.outputs):
            self.records.append(record)
        else:
            reason = record.unfinished_reason or _TOO_LARGE
            self.records.append(replace(record, outputs=[], steps=steps, unfinished_reason=reason))

    def _spend(self, texts: Sequence[bytes | str | None]) -> bool:
        """Return whether some outputs and log lines fit into the response."""
        if self.remaining_bytes >= 0:
            self.remaining_bytes -= shown_size(texts)
        return self.remaining_bytes >= 0


class _Cause(NamedTuple):
    """The attributes that the failures of one group have in common."""

    component: str
    error: str
    message: str
    line: int | None
    column: int | None


class TrialSummaryBuilder:
    """Counts the results of all records.

    Args:
        transforms: The totals of each transform, all 0.
    """

    def __init__(self, transforms: Sequence[TrialTransformTotals]) -> None:
        self._transforms = list(transforms)
        self._outcomes: Counter[Outcome] = Counter()
        self._errors: Counter[_Cause] = Counter()
        self._first: dict[_Cause, int] = {}

    def add(self, first: int, records: Sequence[TrialRecord], totals: Sequence[TrialTransformTotals]) -> None:
        """Add the results of some records.

        Args:
            first: The number of the first of the records in the sample.
            records: The results of the records.
            totals: The totals of the transforms for these records.
        """
        self._outcomes.update(record.outcome for record in records)
        for number, record in enumerate(records, first):
            for failure in record.failures:
                self._count(failure, number)
        for sum_, part in zip(self._transforms, totals, strict=True):
            sum_.received += part.received
            sum_.dropped += part.dropped
            sum_.errors += part.errors
            sum_.sent += part.sent
            sum_.logs += part.logs[: MAX_LOG_LINES - len(sum_.logs)]

    def _count(self, failure: Failure, number: int) -> None:
        cause = _Cause(failure.component, failure.error, failure.message, failure.line, failure.column)
        if cause not in self._errors and len(self._errors) >= _MAX_COUNTED_GROUPS:
            # The messages of a script may all differ, so further ones are counted by the class of the error.
            cause = _Cause(failure.component, failure.error, "(other messages)", None, None)
        self._errors[cause] += 1
        self._first.setdefault(cause, number)

    def result(self) -> TrialSummary:
        """Return the totals, with the most frequent errors first."""
        errors = [
            ErrorGroup(*cause, count=count, first=self._first[cause])
            for cause, count in self._errors.most_common(MAX_ERROR_GROUPS)
        ]
        return TrialSummary(self._outcomes, self._transforms, errors)
