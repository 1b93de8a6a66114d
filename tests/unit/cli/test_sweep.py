"""The command `headwater sweep`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.application import app
from headwater.cli.sweep import _print_table
from headwater.controller.resource_names import ResourceNames
from tests.support.ports import free_port

DEPLOYMENT = "01jz0000000000000000000009"


def test_each_resource_is_listed_with_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    names = ResourceNames(
        groups=frozenset({f"dep-{DEPLOYMENT}.1"}),
        external_groups=frozenset({f"wrk-{DEPLOYMENT}.1"}),
        subscriptions=frozenset({f"wrk-{DEPLOYMENT}.2"}),
    )
    _print_table(names, frozenset({DEPLOYMENT}))
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in capsys.readouterr().out.splitlines()]
    assert rows[3:6] == [
        ["group", f"dep-{DEPLOYMENT}.1", DEPLOYMENT],
        ["group of another cluster", f"wrk-{DEPLOYMENT}.1", DEPLOYMENT],
        ["subscription", f"wrk-{DEPLOYMENT}.2", DEPLOYMENT],
    ]


@pytest.mark.long
def test_sweep_fails_with_one_sentence_if_kafka_is_unavailable(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["keys", "create", "--owner", "ann", "--data-dir", str(tmp_path)]).exit_code == 0
    kafka = {"HEADWATER_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}", "HEADWATER_KAFKA_PASSWORD": "x"}
    command = [sys.executable, "-m", "headwater", "sweep", "--data-dir", str(tmp_path)]
    ended = subprocess.run(command, env=os.environ | kafka, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert "does not answer: check that it runs" in ended.stderr
