"""Differences between revisions, as unified diffs."""

import difflib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.flow import Flow
from headwater.model.stored_config import read_pipeline_config
from headwater.services import revision_diff
from headwater.services.revision_diff import _Comparison, diff_revisions
from tests.support.sql import a_config, a_flow, next_revision

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


def with_script(script: str, uid: str = "t1", **members: Any) -> dict[str, Any]:
    return {"pipeline_config": a_config(transforms=[{"uid": uid, "type": "v8", "script": script}], **members)}


def second(first: Flow, **fields: Any) -> Flow:
    return next_revision(first, **fields)


class TestDiffRevisions:
    def test_members(self) -> None:
        first = a_flow()
        found = diff_revisions(first, second(first, name="new", tags=("a",)))
        assert found.scripts == {}
        assert found.diff.splitlines() == [
            "--- revision 1",
            "+++ revision 2",
            "@@ -1,9 +1,8 @@",
            " {",
            '-  "name": "Größe",',
            '+  "name": "new",',
            '   "description": "",',
            '   "tags": [',
            '-    "a",',
            '-    "b"',
            '+    "a"',
            "   ],",
            '   "pipeline_config": {',
            '     "source": {',
        ]

    def test_equal_revisions(self) -> None:
        first = a_flow()
        assert diff_revisions(first, second(first)) == revision_diff.RevisionDiff("", {})

    def test_a_script_is_compared_by_its_lines(self) -> None:
        first = a_flow(**with_script("one\ntwo\n\u2028three"))
        found = diff_revisions(first, second(first, **with_script("one\n2\n\u2028three")))
        assert found.scripts == {
            "t1": "--- revision 1\n+++ revision 2\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n \u2028three\n"
        }
        changed = [line.split('"')[1] for line in found.diff.splitlines() if line[:2] in ("- ", "+ ")]
        assert changed == ["script", "script"]
        assert "two" not in found.diff

    def test_added_and_removed_scripts(self) -> None:
        first = a_flow(**with_script("old"))
        found = diff_revisions(first, second(first, **with_script("new", uid="t2")))
        assert found.scripts == {
            "t2": "--- revision 1\n+++ revision 2\n@@ -0,0 +1 @@\n+new\n",
            "t1": "--- revision 1\n+++ revision 2\n@@ -1 +0,0 @@\n-old\n",
        }

    def test_the_first_revision_is_compared_with_nothing(self) -> None:
        found = diff_revisions(None, a_flow(**with_script("one")))
        assert found.diff.startswith("--- nothing\n+++ revision 1\n@@ -0,0 +1,")
        assert found.scripts == {"t1": "--- nothing\n+++ revision 1\n@@ -0,0 +1 @@\n+one\n"}

    def test_unreadable_revisions(self) -> None:
        first = a_flow()
        for text in ("damaged", '["no", "object"]', '{"transforms": 5}', '{"transforms": [5]}'):
            found = diff_revisions(first, second(first, pipeline_config=read_pipeline_config(text)))
            assert found.diff
            assert list(found.scripts) == ["t1"]


@given(LINES, LINES)
def test_is_the_same_as_of_difflib(before: list[str], after: list[str]) -> None:
    expected = difflib.unified_diff(before, after, "old", "new", lineterm="")
    assert _Comparison("old", "new").diff(before, after).splitlines() == list(expected)


@given(LINES, LINES, st.integers(0, 50))
def test_a_diff_is_complete_when_the_budget_is_used_up(before: list[str], after: list[str], budget: int) -> None:
    lines = _Comparison("old", "new", budget).diff(before, after).splitlines()[2:]
    shown = [line for line in lines if not line.startswith("@@")]
    kept = [line[1:] for line in shown if line[0] == " "]
    removed = [line[1:] for line in shown if line[0] == "-"]
    added = [line[1:] for line in shown if line[0] == "+"]
    if before != after:
        assert len(before) - len(removed) == len(after) - len(added) >= len(kept)


def test_large_scripts_are_compared_with_bounded_work() -> None:
    before = [f"line {i}" for i in range(12_000)]
    after = [line if i % 2 else f"{line} changed" for i, line in enumerate(before)]
    comparison = _Comparison("old", "new", 200_000)
    lines = comparison.diff(["same", *before, "end"], ["same", *after, "end"]).splitlines()
    assert comparison.budget <= 0
    assert (lines[3], lines[-1]) == (" same", " end")
    assert sum(line.startswith("+") for line in lines[2:]) >= 6_000
