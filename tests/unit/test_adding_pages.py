"""The files on the pages about adding a transform and a sink work.

They pass the tests that docs/adding_a_transform.md and docs/adding_a_sink.md show.
"""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FILE = re.compile(r'```python\n(""".*?)```', re.DOTALL)
"""Matches a file that a page shows as a whole: it begins with a docstring."""


def load(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("adding_a_transform.md", ["headwater.model.transforms.sample", "headwater.transforms.sample", "test_sample"]),
        ("adding_a_sink.md", ["headwater.sinks.kafka_keys", "test_kafka_keys"]),
    ],
)
def test_the_files_of_a_page_pass_its_tests(page: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sources = FILE.findall((DOCS / page).read_text("utf-8"))
    *_, tests = [load(name, source, monkeypatch) for name, source in zip(names, sources, strict=True)]
    cases = [case for name, case in vars(tests).items() if name.startswith("test_")]
    assert cases
    for case in cases:
        case()
