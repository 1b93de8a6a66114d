"""Says why a case failed.

It shows the differences, the lines of scripts, and the transforms that dropped or passed records.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from headwater.cli.pipeline_tests.comparison import differences, path_text, unmatched, value_text
from headwater.cli.pipeline_tests.pipeline_runs import CaseRun
from headwater.model.record import Failure
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.transforms.v8 import V8Transform
from headwater.model.trial import TrialRecord
from headwater.transforms.expression import InvalidRecord, parse
from headwater_client.files.cases import DEAD_LETTERS

MAX_SHOWN_RECORDS: Final = 5
"""The maximum number of surplus records that are shown."""
MAX_SHOWN_LINES: Final = 10
"""The maximum number of lines of one kind that are shown."""
_MAX_SHOWN_VALUES: Final = 3


class Explainer:
    """Explains the result of one case."""

    def __init__(self, run: CaseRun) -> None:
        self._run = run
        self._names = {each.uid: each.name or each.uid for each in run.pipeline.transforms}

    def failures(self) -> list[str]:
        """Return how the results differ from what the case expects, in lines.

        There are none when the case passed.
        """
        lines = [f"record {number + 1}: {each.unfinished_reason}" for number, each in self._unfinished()]
        letters = [(number, failure) for number, record in self._records() for failure in record.failures]
        outputs = [(number, output) for number, record in self._records() for output in map(_decoded, record.outputs)]
        for sink, expected in self._run.case.expect.items():
            if sink == DEAD_LETTERS:
                found = [(number, self._letter(number, failure)) for number, failure in letters]
                lines += self._compare(sink, expected, found)
            else:
                lines += self._compare(sink, expected, outputs)
        if lines or DEAD_LETTERS not in self._run.case.expect:
            lines += _limited(line for number, failure in letters for line in self._failure_lines(number, failure))
        return lines + self._log_lines() if lines else []

    def _records(self) -> Iterator[tuple[int, TrialRecord]]:
        return enumerate(self._run.records)

    def _unfinished(self) -> Iterator[tuple[int, TrialRecord]]:
        return ((number, record) for number, record in self._records() if record.unfinished_reason)

    def _letter(self, number: int, failure: Failure) -> dict[str, Any]:
        """Return a dead letter as cases expect it."""
        return {
            "error": failure.error,
            "message": failure.message,
            "transform": self._names.get(failure.component, failure.component),
            "line": failure.line,
            "column": failure.column,
            "record": _decoded(self._run.case.records[number]),
        }

    def _compare(self, sink: str, expected: Sequence[Any], found: Sequence[tuple[int, Any]]) -> list[str]:
        """Return how the records of a sink differ from the expected ones.

        Each found record has the number of its source record.
        """
        exact = self._run.case.exact and sink != DEAD_LETTERS
        records = [record for _, record in found]
        if len(expected) == len(records):
            pairs = zip(expected, found, strict=True)
            lines = [
                line
                for index, (wanted, (number, record)) in enumerate(pairs)
                for line in self._difference_lines(sink, index, number, wanted, record, exact=exact)
            ]
            return _limited(lines)
        missing, surplus = unmatched(expected, records, exact=exact)
        lines = [f"expected {_count(len(expected))} in {sink}, got {_count(len(records))}"]
        lines += _limited(f"  missing: {value_text(expected[index])}" for index in missing)
        for index in surplus[:MAX_SHOWN_RECORDS]:
            lines.append(f"  not expected: {value_text(records[index])}")
            if sink != DEAD_LETTERS:
                lines.append(f"  passed by: {self._transforms_text(found[index][0])}")
        if missing and sink != DEAD_LETTERS:
            lines += _limited(
                f"  record {number + 1} was dropped by: {self._transforms_text(number)}"
                for number, record in self._records()
                if record.outcome == "dropped"
            )
        return lines

    def _difference_lines(
        self, sink: str, index: int, number: int, wanted: Any, record: Any, *, exact: bool
    ) -> Iterator[str]:
        for each in differences(wanted, record, exact=exact):
            place = path_text((index, *each.path))
            yield f"{sink}{place}: expected {value_text(each.expected)}, got {value_text(each.found)}"
            member = next((part for part in reversed(each.path) if isinstance(part, str)), None)
            if sink != DEAD_LETTERS and member is not None:
                yield from self._lines_naming(number, member)

    def _lines_naming(self, number: int, member: str) -> Iterator[str]:
        """Yield the script lines that name a member.

        They are from the last script on the record's way that names it.
        """
        steps = len(self._run.records[number].steps)
        for transform in reversed(self._run.pipeline.transforms[:steps]):
            if isinstance(transform, V8Transform):
                pattern = re.compile(rf"(?<![\w$]){re.escape(member)}(?![\w$])")
                lines = enumerate(transform.script.splitlines(), 1)
                shown = [(line, text) for line, text in lines if pattern.search(text)]
                yield from (f"  {self._script_name(transform)}:{line}  {text.strip()}" for line, text in shown[:3])
                if shown:
                    return

    def _failure_lines(self, number: int, failure: Failure) -> Iterator[str]:
        name = self._names.get(failure.component, failure.component)
        yield f"record {number + 1} failed in {name}: {failure.error}: {failure.message}"
        transform = next((each for each in self._run.pipeline.transforms if each.uid == failure.component), None)
        if isinstance(transform, V8Transform) and failure.line is not None:
            lines = transform.script.splitlines()
            text = lines[failure.line - 1].strip() if failure.line <= len(lines) else ""
            yield f"  {self._script_name(transform)}:{failure.line}:{failure.column}  {text}"

    def _log_lines(self) -> list[str]:
        logs = [line for record in self._run.records for step in record.steps for line in step.logs]
        return _limited(f"log: {line}" for line in logs)

    def _script_name(self, transform: V8Transform) -> str:
        return self._run.pipeline.script_paths.get(transform.uid) or self._names[transform.uid]

    def _transforms_text(self, number: int) -> str:
        """Return the transforms that passed a record, or the transform that dropped it."""
        record, inputs = self._run.records[number], [self._run.case.records[number]]
        passed = []
        for transform, step in zip(self._run.pipeline.transforms, record.steps, strict=False):
            text = f"{self._names[transform.uid]} ({self._reason(transform, inputs, is_dropped=not step.outputs)})"
            if not step.outputs:
                return text
            passed.append(text)
            inputs = [output or b"" for output in step.outputs]
        return ", ".join(passed) or "no transform: the pipeline has none"

    def _reason(self, transform: Any, inputs: Sequence[bytes], *, is_dropped: bool) -> str:
        """Return why a transform dropped a record, or passed it."""
        if isinstance(transform, RedisSetFilterTransform):
            return self._filter_reason(transform, inputs, is_dropped=is_dropped)
        name = self._run.pipeline.script_paths.get(transform.uid) or "a script"
        return f"{name} returned nothing" if is_dropped else name

    def _filter_reason(self, transform: RedisSetFilterTransform, inputs: Sequence[bytes], *, is_dropped: bool) -> str:
        name = self._names[transform.uid]
        values = self._run.values[name]
        if not values:
            return f"it has no values in this case; add `values: {{{name}: […]}}`"
        selected = list(_selected(transform.filter_expr, inputs))
        if not selected:
            return "its expression selects nothing"
        shown = selected if is_dropped else [value for value in selected if value in values]
        text = ", ".join(map(value_text, shown[:_MAX_SHOWN_VALUES])) + ("…" if len(shown) > _MAX_SHOWN_VALUES else "")
        return f"{text} not in its {len(values):,} values" if is_dropped else f"{text} in its values"


def _selected(expression: str, inputs: Sequence[bytes]) -> Iterator[str]:
    for record in inputs:
        try:
            yield from parse(expression).select(record)
        except InvalidRecord:
            continue


def _decoded(record: bytes | None) -> Any:
    """Return a record as a JSON value; a text when it is not JSON."""
    try:
        return json.loads(record or b"null")
    except ValueError:
        return (record or b"").decode(errors="replace")


def _count(number: int) -> str:
    return {0: "nothing", 1: "1 record"}.get(number, f"{number} records")


def _limited(lines: Iterable[str]) -> list[str]:
    """Return the first lines, and how many others there are."""
    found = list(lines)
    rest = len(found) - MAX_SHOWN_LINES
    return [*found[:MAX_SHOWN_LINES], f"… and {rest} more lines"] if rest > 0 else found
