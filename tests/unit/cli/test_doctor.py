"""`headwater doctor` on the database of a data directory."""

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.application import app
from headwater.stores.sql.encryption import decode_secret_key
from tests.support.sql import OWNER, a_deployment, a_flow, open_sqlite


def run(data_dir: Path, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments, "--data-dir", str(data_dir)])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Create two deployed configurations."""
    run(tmp_path, "keys", "create", "--owner", OWNER)
    key = decode_secret_key((tmp_path / "secret-key").read_text().strip(), "secret-key")
    database = open_sqlite(tmp_path / "headwater.db", key)
    for number in (1, 2):
        database.flows.create(a_flow(f"f{number}"))
        database.deployments.request_deploy(OWNER, f"f{number}", a_deployment(f"d{number}", config_id=f"f{number}"))
    database.close()
    return tmp_path


def damage(data_dir: Path, statement: str) -> None:
    connection = sqlite3.connect(data_dir / "headwater.db")
    with connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def test_nothing_to_do(data_dir: Path) -> None:
    assert "can be read" in run(data_dir, "doctor")


def test_unreadable_rows_are_listed_with_advice(data_dir: Path) -> None:
    damage(data_dir, "UPDATE flow_revisions SET config = 'damaged' WHERE flow_id = 'f1'")
    damage(data_dir, "UPDATE deployments SET reader_password = worker_password WHERE id = 'd2'")
    shown = run(data_dir, "doctor", status=1)
    assert "Save it again with PUT" in shown
    found = [json.loads(line) for line in run(data_dir, "doctor", "--json", status=1).splitlines()]
    assert {(row["kind"], row["id"], row["owner"]) for row in found} == {
        ("configuration", "f1", OWNER),
        ("configuration", "f2", OWNER),
        ("deployment", "d1", OWNER),
        ("deployment", "d2", OWNER),
    }


def test_with_another_secret_key(data_dir: Path) -> None:
    """Other commands do not open the database in this state."""
    (data_dir / "secret-key").write_text("A" * 43 + "=\n")
    run(data_dir, "keys", "list", status=2)
    assert "another secret key" in run(data_dir, "doctor", status=1)


def test_no_installation(tmp_path: Path) -> None:
    run(tmp_path / "nowhere", "doctor", status=2)
