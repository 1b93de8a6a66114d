"""The classification of scripts as stateless or stateful."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.sandbox.analysis.state import may_keep_state
from headwater.sandbox.analysis.tree import parse


def scripts(name: str) -> list[str]:
    """Return the scripts of a file, one per line; `ASK` is replaced by a lookup."""
    text = Path(__file__).with_name(name).read_text()
    return text.replace("ASK", "flow.contains('w', [r.a])").splitlines()


@pytest.mark.parametrize("script", scripts("scripts_without_state.txt"))
def test_stateless_scripts(script: str) -> None:
    assert not may_keep_state(parse(script))


@pytest.mark.parametrize("script", scripts("scripts_with_state.txt"))
def test_stateful_scripts(script: str) -> None:
    assert may_keep_state(parse(script))


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "script",
    [
        lambda count: "flow;" + "x=>" * count + "1",
        lambda count: "class K { m() { flow; " + "(this, " * (count // 2) + "1" + ")" * (count // 2) + " } }",
        lambda count: "flow; function process(r) { return flow" + ".b()" * count + " }",
        lambda count: (
            "flow;"
            + "".join(f"function f{n}() {{ return f{n + 1}() }}" for n in range(count // 10))
            + "function process() {}"
        ),
        lambda count: "flow;" + "(" * count * 5,
    ],
    ids=["arrows", "nested calls", "chained calls", "functions", "brackets"],
)
@pytest.mark.timeout(60)
def test_the_analysis_of_a_hostile_script_ends(script: Callable[[int], str], count: int) -> None:
    may_keep_state(parse(script(count)))


def test_a_large_script_without_state() -> None:
    step = """
      function step_{0}(record, options = {{}}) {{
        const {{ limit = 10, names = ['a', 'b'] }} = options;
        const parts = names.map((name) => `${{name}}:${{record[name] ?? 'none'}}`).filter(Boolean);
        if (parts.length > limit) return {{ ...record, parts, ok: flow.contains('w', [record.from, record.to]) }};
        return parts.length ? {{ note: parts.join(','), nested: {{ a: [1, 2, {{ b: {0} }}] }} }} : null;
      }}
    """
    script = "".join(step.format(number) for number in range(600)) + "const process = step_1;"
    assert len(script) > 250_000
    assert not may_keep_state(parse(script))


def test_deeply_nested_scripts_are_taken_to_keep_something() -> None:
    script = "function process(r) { flow.contains('a', [r]); return " + "f(" * 20_000 + ")" * 20_000 + "; }"
    assert may_keep_state(parse(script))


def test_object_assign_without_arguments() -> None:
    """Object.assign() throws, so the script keeps no state."""
    assert not may_keep_state(
        parse("function process(r) { Object.assign(); return flow.contains('a', [r]) ? r : null; }")
    )
