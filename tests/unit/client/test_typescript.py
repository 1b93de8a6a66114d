"""The TypeScript client: its types are the API's, and its own tests pass."""

import os
import subprocess
from pathlib import Path

import deno
import pytest

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "clients" / "typescript"
DESCRIPTION = ROOT / "docs" / "reference" / "openapi.json"

pytestmark = pytest.mark.long  # Deno checks the types, and downloads the generator when it is not cached.


def run_deno(command: str, *arguments: str | Path) -> None:
    """Run Deno in the folder of the client. The lock file pins what it may download."""
    done = subprocess.run(
        [deno.find_deno_bin(), command, "--quiet", *map(str, arguments)],
        cwd=CLIENT,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_are_generated_from_the_description(tmp_path: Path) -> None:
    schema = tmp_path / "schema.ts"
    permissions = ("--allow-env", f"--allow-read={CLIENT},{DESCRIPTION},{tmp_path}", f"--allow-write={schema}")
    run_deno("run", *permissions, "scripts/generate.ts", DESCRIPTION, schema)
    assert schema.read_text("utf-8") == (CLIENT / "src" / "schema.ts").read_text("utf-8"), "run `deno task generate`"


def test_its_own_tests() -> None:
    run_deno("test", f"--allow-read={DESCRIPTION}")


def test_its_format_and_lint() -> None:
    run_deno("fmt", "--check")
    run_deno("lint")
