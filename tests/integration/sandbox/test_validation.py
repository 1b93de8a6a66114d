"""Checking a script at save: what is refused, where, and what only warns."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.errors import ScriptRefused
from headwater.sandbox import validate


class TestRefused:
    @pytest.mark.parametrize(
        ("script", "line", "column"),
        [
            ("let x = ;", 1, 9),
            ("function process(d) { return d..x }", 1, 32),
            ("var x = 'é' + ;", 1, 15),
            ("var 😀;", 1, 5),
            ("function process(d) {\n  return {\n    a: 1,,\n  }\n}", 3, 10),
            ("\n\n  foo bar", 3, 7),
            ("let a;\nlet a; function process() {}", 2, 5),
            ("function process(d) { return `open", 1, 35),
            ("import x from 'y'; function process() {}", 1, 1),
            ("const deep = null;\n  deep.property.name;\nfunction process() {}", 2, 8),
            ("throw new TypeError('own'); function process() {}", 1, 7),
        ],
    )
    def test_with_line_and_column(self, script: str, line: int, column: int) -> None:
        with pytest.raises(ScriptRefused) as refused:
            validate(script, "{}")
        assert (refused.value.line, refused.value.column) == (line, column)
        assert f"in line {line}, column {column}" in refused.value.detail

    @pytest.mark.parametrize("script", ["", "const x = 1", "const process = {}", "function proces(d) { return d }"])
    def test_without_a_function(self, script: str) -> None:
        with pytest.raises(ScriptRefused, match=r"no function `process\(record\)`") as refused:
            validate(script, "{}")
        assert (refused.value.line, refused.value.column) == (None, None)

    @pytest.mark.parametrize("script", ["for (;;);", "Array(1e9).fill(1);"])
    def test_a_top_level_that_does_not_end(self, script: str) -> None:
        with pytest.raises(ScriptRefused, match="the top level of the script ran for more than 1 s"):
            validate(f"{script} function process(d) {{ return d }}", "{}")


class TestWarnings:
    @pytest.mark.parametrize(
        "script",
        [
            "function process(d) { return d }",
            "async function unused() {}; const transform = (d) => null",
            "function process(d) { return flow.contains('anything', [d.a]) ? d.x.y.z : d }",
            "// comment\n'use strict'; class A { static process() {} }; let process = A.process",
        ],
    )
    def test_none(self, script: str) -> None:
        assert validate(script, '{"a":1}') == []

    def test_what_the_example_makes_it_throw(self) -> None:
        (warning,) = validate("function process(d) {\n  return d.a.b.c }", '{"a":1}')
        assert "TypeError" in warning
        assert "in line 2, column 16" in warning

    def test_a_promise(self) -> None:
        (warning,) = validate("async function process(d) { return d }", "{}")
        assert "Promise" in warning

    def test_a_call_that_takes_too_long(self) -> None:
        (warning,) = validate("function process(d) { for (;;); }", "{}")
        assert "50 ms" in warning


def test_many_at_once() -> None:
    with ThreadPoolExecutor(12) as pool:
        scripts = [f"function process(d) {{ return d.a{number}.b }}" for number in range(12)]
        warnings = list(pool.map(lambda script: validate(script, "{}"), scripts))
    assert all(len(found) == 1 and "TypeError" in found[0] for found in warnings)
