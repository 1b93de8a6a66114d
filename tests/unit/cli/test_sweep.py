"""`headwater sweep` as a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli import app
from tests.support.ports import free_port

pytestmark = pytest.mark.long


def test_sweep_fails_with_one_sentence_if_kafka_is_unavailable(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["keys", "create", "--owner", "ann", "--data-dir", str(tmp_path)]).exit_code == 0
    kafka = {"HEADWATER_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}", "HEADWATER_KAFKA_PASSWORD": "x"}
    command = [sys.executable, "-m", "headwater", "sweep", "--data-dir", str(tmp_path)]
    ended = subprocess.run(command, env=os.environ | kafka, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert "does not answer: check that it runs" in ended.stderr
