"""The API behaves as /openapi.json describes.

Schemathesis sends valid and invalid requests.

The requests are examples, boundary values, random values and sequences of requests. Each response is checked for its
status, headers, body and content type; invalid input must be rejected and valid input accepted. Requests without a key
and with unsupported methods are sent, too.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.installation import Installation

FUZZ = Path(__file__).with_name("fuzz")
DELETES_AT_ONCE = 8


@pytest.fixture
def key(installation: Installation) -> Iterator[str]:
    """Create a key with all scopes for a new owner. Delete the owner's resources afterwards."""
    paths = httpx2.get(f"{installation.url}/openapi.json").json()["paths"].values()
    needed = {
        s for p in paths for operation in p.values() for name, s in operation.items() if name.startswith("x-scope")
    }
    scopes = [part for scope in needed for part in ("--scope", scope)]
    result = installation.run("keys", "create", "--owner", f"fuzz-{random.random()}", *scopes)
    yield result.stdout.strip()
    with installation.client(result.stdout.strip()) as client:
        paths = [f"/api/v1/flow/{flow['id']}" for flow in client.get("/api/v1/flow").json()]
        with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
            assert {answer.status_code for answer in pool.map(client.delete, paths)} <= {200}


def schemathesis(installation: Installation, key: str, folder: Path, *flags: str, within_s: int) -> None:
    """Run Schemathesis, and fail with its output."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(FUZZ / "schemathesis.toml")]
    command += [
        "run",
        f"{installation.url}/openapi.json",
        "--checks",
        "all",
        "--no-color",
        "--continue-on-failure",
        *flags,
    ]
    environment = {**os.environ, "HEADWATER_TEST_KEY": key, "PYTHONPATH": str(FUZZ.parents[2]), "COLUMNS": "120"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=within_s)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


class TestDescription:
    @pytest.mark.long
    @pytest.mark.timeout(630)
    def test_the_api_conforms(self, installation: Installation, key: str, tmp_path: Path) -> None:
        """The requests are the same each time, and take less than a minute on an idle machine."""
        schemathesis(
            installation,
            key,
            tmp_path,
            "--generation-deterministic",
            "--max-examples",
            "3",
            "--phases",
            "examples,fuzzing,stateful",
            within_s=600,
        )

    @pytest.mark.slow
    @pytest.mark.timeout(3600)
    def test_the_api_conforms_to_many_more_requests(self, installation: Installation, key: str, tmp_path: Path) -> None:
        """Schemathesis prints its seed; `--seed` repeats a run."""
        schemathesis(installation, key, tmp_path, "--max-examples", "200", within_s=3500)

    def test_the_description_needs_no_key(self, installation: Installation) -> None:
        assert httpx2.get(f"{installation.url}/openapi.json").status_code == 200
