"""Compares two revisions of a configuration, as unified diffs."""

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

from headwater.model.flow import Flow
from headwater.model.revision import PIPELINE, canonical_form
from headwater.model.transforms import SCRIPT_TYPES, TRANSFORM_MODELS

CONTEXT_LINES = 3
"""How many unchanged lines a diff shows before and after each change."""
MAX_LINE_COMPARISONS = 5_000_000
"""How many lines one diff compares at most, which takes about a second.

The comparison of two texts may take a time that grows with the square of their lengths.
"""

LONG_TEXT_LINES = 200
"""In a text of at least so many lines, difflib ignores each line that makes up more than 1 % of them (autojunk)."""


@dataclass(frozen=True, slots=True)
class RevisionDiff:
    """The differences between two revisions, as unified diffs.

    Attributes:
        diff: The diff of the canonical forms, in which each script is replaced by its SHA-256; empty when they are
            equal.
        scripts: The diffs of the scripts that differ, by the uid of the transform.
    """

    diff: str
    scripts: Mapping[str, str]


def diff_revisions(before: Flow | None, after: Flow) -> RevisionDiff:
    """Return how `after` differs from `before`. None is an empty configuration."""
    comparison = _Comparison(
        "nothing" if before is None else f"revision {before.revision}", f"revision {after.revision}"
    )
    old, new = _scripts(before), _scripts(after)
    differing = [uid for uid in dict.fromkeys([*new, *old]) if old.get(uid) != new.get(uid)]
    return RevisionDiff(
        comparison.diff(_canonical_lines(before), _canonical_lines(after)),
        {uid: comparison.diff(_lines(old.get(uid)), _lines(new.get(uid))) for uid in differing},
    )


def _scripts(flow: Flow | None) -> dict[str, str]:
    """Return the scripts of a configuration by the uid of their transform."""
    identities = flow.pipeline_config.transform_identities if flow else ()
    return {identity.uid: identity.content for identity in identities if identity.type in SCRIPT_TYPES}


def _canonical_lines(flow: Flow | None) -> list[str]:
    if flow is None:
        return []
    return json.dumps(_with_digests(canonical_form(flow)), indent=2, ensure_ascii=False).split("\n")


def _with_digests(form: dict[str, Any]) -> dict[str, Any]:
    """Return a canonical form with the SHA-256 of each script in place of the script."""
    pipeline = form[PIPELINE]
    transforms = pipeline.get("transforms") if isinstance(pipeline, dict) else None
    if not isinstance(transforms, list):
        return form
    return {**form, PIPELINE: {**pipeline, "transforms": [_with_digest(transform) for transform in transforms]}}


def _with_digest(transform: Any) -> Any:
    if not isinstance(transform, dict) or transform.get("type") not in SCRIPT_TYPES:
        return transform
    field = TRANSFORM_MODELS[transform["type"]].content_field
    digest = hashlib.sha256(str(transform.get(field)).encode("utf-8", "surrogatepass")).hexdigest()
    return {**transform, field: f"sha256 {digest}"}


def _lines(script: str | None) -> list[str]:
    return [] if script is None else script.split("\n")


@dataclass(slots=True)
class _Comparison:
    """Compares the texts of two revisions.

    Attributes:
        before: The name of the first revision.
        after: The name of the second revision.
        budget: How many lines may still be compared.
    """

    before: str
    after: str
    budget: int = MAX_LINE_COMPARISONS

    def diff(self, before: Sequence[str], after: Sequence[str]) -> str:
        """Return the unified diff of two texts; empty when they are equal."""
        hunks = list(_Matcher(before, after, self).get_grouped_opcodes(CONTEXT_LINES))
        head = [f"--- {self.before}", f"+++ {self.after}"] if before != after else []
        lines = chain(head, *(_hunk_lines(hunk, before, after) for hunk in hunks if head))
        return "".join(f"{line}\n" for line in lines)


def _hunk_lines(
    hunk: Sequence[tuple[str, int, int, int, int]], before: Sequence[str], after: Sequence[str]
) -> Iterator[str]:
    (_, first_before, _, first_after, _), (_, _, end_before, _, end_after) = hunk[0], hunk[-1]
    yield f"@@ -{_range(first_before, end_before)} +{_range(first_after, end_after)} @@"
    for tag, start_before, stop_before, start_after, stop_after in hunk:
        if tag == "equal":
            yield from (f" {line}" for line in before[start_before:stop_before])
            continue
        yield from (f"-{line}" for line in before[start_before:stop_before])
        yield from (f"+{line}" for line in after[start_after:stop_after])


def _range(start: int, stop: int) -> str:
    """Return a range of lines as the head of a hunk shows it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


class _Matcher(difflib.SequenceMatcher[str]):
    """Finds the lines that two texts have in common.

    When the budget is used up, the lines of the regions that remain count as different, except the common lines at
    their start and at their end.
    """

    def __init__(self, before: Sequence[str], after: Sequence[str], comparison: _Comparison) -> None:
        self._before, self._after, self._comparison = before, after, comparison
        super().__init__(None, before, after)
        # Each line of `before` is compared with the equal lines of `after`. SequenceMatcher ignores frequent lines.
        is_long = len(after) >= LONG_TEXT_LINES
        frequent = len(after) // 100 + 1 if is_long else len(after)
        self._occurrences = Counter({line: count for line, count in Counter(after).items() if count <= frequent})

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Any:
        ahi, bhi = len(self._before) if ahi is None else ahi, len(self._after) if bhi is None else bhi
        before, after = self._before[alo:ahi], self._after[blo:bhi]
        if self._comparison.budget > 0:
            self._comparison.budget -= sum(1 + self._occurrences[line] for line in before)
        if self._comparison.budget > 0:
            return super().find_longest_match(alo, ahi, blo, bhi)
        if at_start := _common_lines(before, after):
            return difflib.Match(alo, blo, at_start)
        at_end = _common_lines(reversed(before), reversed(after))
        return difflib.Match(ahi - at_end, bhi - at_end, at_end)


def _common_lines(before: Iterable[str], after: Iterable[str]) -> int:
    """Return how many lines at the start of two texts are equal."""
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
