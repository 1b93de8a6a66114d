"""The TypeScript client uses a running service."""

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import deno
import pytest

from tests.acceptance.installation import Installation

PROGRAM = Path(__file__).with_name("first_pipeline.ts")
CONFIG = Path(__file__).parents[3] / "clients" / "typescript" / "deno.json"
RECORD = {
    "token_address": "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
    "transaction_hash": "0x1",
    "log_index": 1,
    "raw_amount": 123456789012345678901234567890,
}


@pytest.mark.long
def test_a_first_pipeline(installation: Installation) -> None:
    host = urlsplit(installation.url).netloc
    command = [deno.find_deno_bin(), "run", "--quiet", "--check", f"--config={CONFIG}", f"--allow-net={host}"]
    with subprocess.Popen(
        [*command, str(PROGRAM), installation.url, installation.key],
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
        installation.feed("base", "erc20_token_transfer", [RECORD])
        assert program.stdout.read() == "done\n"
    assert program.returncode == 0
