"""The code of the console passes its own tests, and its types fit."""

import os
import subprocess
from pathlib import Path

import deno
import pytest

CONSOLE = Path(__file__).parents[2] / "console"


@pytest.mark.long  # Deno checks the types of all libraries.
@pytest.mark.parametrize("task", ["check", "test"])
def test_its_own_checks(task: str) -> None:
    done = subprocess.run(
        [deno.find_deno_bin(), "task", "--quiet", task],
        cwd=CONSOLE,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
