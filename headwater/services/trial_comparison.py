"""Compares the results of two pipelines for the same records."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from headwater.model.trial import Comparison, Difference, DifferenceExample, TrialRecord
from headwater.services.trial_runs import shown_size

MAX_EXAMPLES = 5
"""The maximum number of examples of each difference."""
MAX_EXAMPLE_BYTES = 1 << 20
"""The maximum size of all examples together. An example that does not fit is left out."""
_SHOWN: tuple[Difference, ...] = ("changed", "only_before", "only_after")


class ResultComparison:
    """Counts the records with equal and with different results, and keeps some examples."""

    def __init__(self) -> None:
        self._counts: Counter[Difference] = Counter()
        self._examples: dict[Difference, list[DifferenceExample]] = {difference: [] for difference in _SHOWN}
        self._remaining_bytes = MAX_EXAMPLE_BYTES

    def add(self, number: int, value: bytes | None, before: TrialRecord, after: TrialRecord) -> None:
        """Compare the two results of one record.

        Args:
            number: The number of the record in the sample.
            value: The record.
            before: The result of the pipeline to compare with.
            after: The result of the pipeline of the request.
        """
        difference = find_difference(before, after)
        self._counts[difference] += 1
        if difference == "same" or len(self._examples[difference]) >= MAX_EXAMPLES:
            return
        size = shown_size([value, *before.outputs, *after.outputs])
        if size <= self._remaining_bytes:
            self._remaining_bytes -= size
            example = DifferenceExample(difference, number, _without_steps(before), _without_steps(after))
            self._examples[difference].append(example)

    def result(self) -> Comparison:
        """Return the counts and the examples, in the order of the records."""
        examples = [example for examples in self._examples.values() for example in examples]
        return Comparison(self._counts, sorted(examples, key=lambda example: example.number))


def find_difference(before: TrialRecord, after: TrialRecord) -> Difference:
    """Return how two results of one record differ.

    Outputs are compared as JSON values: white space, the order of members, and whether a number is written as 1 or 1.0
    are no difference. Errors are compared by class and message.
    """
    if bool(before.outputs) != bool(after.outputs):
        return "only_before" if before.outputs else "only_after"
    if _errors(before) != _errors(after) or not _have_equal_outputs(before.outputs, after.outputs):
        return "changed"
    return "same"


def _errors(record: TrialRecord) -> list[tuple[str, str]]:
    return sorted((failure.error, failure.message) for failure in record.failures)


def _have_equal_outputs(before: Sequence[bytes | None], after: Sequence[bytes | None]) -> bool:
    return len(before) == len(after) and all(map(_is_equal_json, before, after))


def _is_equal_json(first: bytes | None, second: bytes | None) -> bool:
    if first == second:
        return True
    if first is None or second is None:
        return False
    with suppress(ValueError, RecursionError):
        return bool(_parse(first) == _parse(second))
    return False  # at least one of them is not JSON, or is nested too deeply, so only equal bytes would be the same


def _parse(text: bytes) -> Any:
    return json.loads(text.decode(), parse_int=_number, parse_float=_number)


def _number(digits: str) -> tuple[Decimal | str]:
    """Return a number with all of its digits, as a tuple, because True equals 1 in Python."""
    try:
        return (Decimal(digits),)
    except InvalidOperation:  # the exponent is out of Decimal's range
        return (digits,)


def _without_steps(record: TrialRecord) -> TrialRecord:
    return TrialRecord(record.outputs, record.failures, [], record.unfinished_reason)
