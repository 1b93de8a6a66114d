"""The programs on the page about the client work as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.installation import Installation

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.long
def test_the_programs_work(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_URL", installation.url)
    monkeypatch.setenv("HEADWATER_KEY", installation.key)
    names: dict[str, Any] = {"__name__": "page"}
    for program in PROGRAMS:
        exec(compile(program, str(PAGE), "exec"), names)
