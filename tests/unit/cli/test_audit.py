"""`headwater audit` on the database of a data directory."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.cli.application import app


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Create keys of two owners, of which one is revoked."""
    run(tmp_path, "keys", "create", "--owner", "ann")
    result = run(tmp_path, "keys", "create", "--owner", "[red]bob")
    run(tmp_path, "keys", "revoke", result.strip().removeprefix("hw_live_")[:12])
    return tmp_path


def run(data_dir: Path, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments, "--data-dir", str(data_dir)])
    assert result.exit_code == status, result.output
    return result.output


def rows(data_dir: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(data_dir, "audit", "--json", *arguments).splitlines()]


def test_json_lines_newest_first(data_dir: Path) -> None:
    found = rows(data_dir)
    assert [(row["action"], row["owner"]) for row in found] == [
        ("key.revoke", "[red]bob"),
        ("key.create", "[red]bob"),
        ("key.create", "ann"),
    ]
    assert {(row["key_id"], row["ip"], row["state"]) for row in found} == {("cli", "", "done")}
    assert found[0]["at"].endswith("Z")


def test_filters(data_dir: Path) -> None:
    revoked = rows(data_dir, "--limit", "1")[0]
    assert {row["owner"] for row in rows(data_dir, "--owner", "ann")} == {"ann"}
    assert len(rows(data_dir, "--object", revoked["object"])) == 2
    assert rows(data_dir, "--until", "2026-01-01") == []
    assert len(rows(data_dir, "--since", "2026-01-01T00:00:00")) == 3


def test_table(data_dir: Path) -> None:
    shown = run(data_dir, "audit")
    assert "[red]bob" in shown
    assert "key.revoke" in shown


def test_no_installation(tmp_path: Path) -> None:
    run(tmp_path / "nowhere", "audit", status=2)
