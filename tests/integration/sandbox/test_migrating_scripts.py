"""The scripts on the page about migrating scripts give the documented results.

They get the streams' example records.
"""

import json
import re
from pathlib import Path

import pytest

from headwater.model.stream import find_chain
from headwater.sandbox import Sandbox, validate_script
from tests.support.sandbox import lines, run

PAGE = Path(__file__).parents[3] / "docs" / "migrating_scripts.md"
EXAMPLE = re.compile(
    r"On the stream `(\w+)` `(\w+)`:\n\n```(?:js|ts)\n(.*?)```\n\nThe stream's example record becomes:\n\n"
    r"```json\n(.*?)```",
    re.DOTALL,
)
EXAMPLES = EXAMPLE.findall(PAGE.read_text())


def test_the_page_has_a_script_of_each_kind() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("chain", "entity", "script", "becomes"), EXAMPLES)
def test_examples(shared_sandbox: Sandbox, chain: str, entity: str, script: str, becomes: str) -> None:
    found = find_chain(chain)
    stream = found.entity(entity) if found else None
    assert stream is not None
    checked = validate_script(script, json.dumps(stream.example))
    assert checked.warnings == []
    program = checked.javascript or script
    output = run(shared_sandbox, program, lines(stream.example), {"exchanges": set()}).outputs[0]
    assert json.loads(output or b"") == json.loads(becomes)
