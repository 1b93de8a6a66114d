"""The JavaScript harness and the Python code have the same numbers and names."""

import re
from pathlib import Path

import pytest

from headwater.sandbox import script_batch
from headwater.sandbox.dry_runs import DRY_RUN_REALM_BIT
from headwater.sandbox.frames import Kind
from headwater.sandbox.script_batch import Mode
from headwater.sandbox.validation.script_globals import GLOBALS

HARNESS = Path(script_batch.__file__).with_name("harness")
MAIN, REALM_SETUP, WEB, CONSOLE, RECORDS = (
    (HARNESS / f"{name}.js").read_text() for name in ("main", "realm_setup", "web", "console", "records")
)
FLAGS = {
    "TRACED": Mode.TRACED.flag,
    "ALONE": Mode.ALONE.flag,
    "INPUT_FROM_SCRIPT": script_batch.INPUT_FROM_SCRIPT_FLAG,
    "FEEDS_SCRIPT": script_batch.FEEDS_SCRIPT_FLAG,
    "DRY_RUN": script_batch.DRY_RUN_FLAG,
    "DRY_RUN_REALM_BIT": DRY_RUN_REALM_BIT,
}


def constant(name: str) -> int:
    """Return a number that main.js defines."""
    [number] = re.findall(rf"\b{name} = (\w+)[,;]", MAIN)
    return int(number, 0)


@pytest.mark.parametrize("kind", Kind)
def test_the_types_of_frames(kind: Kind) -> None:
    assert constant(kind.name) == kind


@pytest.mark.parametrize(("name", "number"), FLAGS.items())
def test_the_flags_of_segments_and_of_realm_numbers(name: str, number: int) -> None:
    assert constant(name) == number


def test_the_globals_of_scripts() -> None:
    [kept] = re.findall(r"KEPT_SCRIPT_GLOBALS = \((.*?)\)\.split", REALM_SETUP, re.DOTALL)
    [provided_by_web] = re.findall(r"Object\.entries\(\{([^}]*)\}\)\) provide\(", WEB)
    provided = [*re.findall(r"provide\('(\w+)'", CONSOLE), *re.findall(r"hidden\(globalThis, '(\w+)'", RECORDS)]
    assert {*re.findall(r"\w+", kept), *re.findall(r"\w+", provided_by_web), *provided} == GLOBALS
