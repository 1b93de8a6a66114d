"""`headwater owners` on the database of a data directory."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.app.database import installation_quotas
from headwater.cli.application import app
from headwater.model.quota import QUOTA_NAMES
from headwater.settings import Settings


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    assert CliRunner().invoke(app, ["keys", "create", "--owner", "ann", "--data-dir", str(tmp_path)]).exit_code == 0
    return tmp_path


def run(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["owners", *arguments, "--data-dir", str(data_dir)])


def test_set_numbers_none_and_default(data_dir: Path) -> None:
    assert run(data_dir, "set", "ann", "--max-workers", "10", "--max-set-values", "none").exit_code == 0
    settings = Settings(data_dir=data_dir, quota_workers=3, quota_set_values=5, quota_datasets=7)
    with installation_quotas(settings) as quotas:
        allowed = quotas.limits("ann")
        assert (allowed["workers"], allowed["set_values"], allowed["datasets"]) == (10, None, 7)
        assert quotas.limits("bob")["workers"] == 3
    assert run(data_dir, "set", "ann", "--max-workers", "default").exit_code == 0
    with installation_quotas(settings) as quotas:
        assert quotas.limits("ann")["workers"] == 3


def test_set_prints_the_quotas_and_whether_the_owner_has_a_key(data_dir: Path) -> None:
    known = run(data_dir, "set", "ann", "--max-workers", "10", "--max-datasets", "none").stdout
    assert known == "ann: workers 10, datasets none\n"
    assert "There is no key of an owner anne yet." in run(data_dir, "set", "anne", "--max-workers", "10").stdout


def test_list_shows_owners_with_their_own_quotas(data_dir: Path) -> None:
    run(data_dir, "set", "ann", "--max-workers", "1234", "--max-datasets", "none")
    shown = run(data_dir, "list").stdout
    assert "ann" in shown
    assert "1,234" in shown
    assert "none" in shown
    assert "default" in shown


def test_show_says_where_each_quota_was_set(data_dir: Path, valkey_url: str) -> None:
    run(data_dir, "set", "ann", "--max-workers", "10")
    environment = {"HEADWATER_REDIS_URL": valkey_url, "HEADWATER_QUOTA_DATASETS": "7", "COLUMNS": "250"}
    shown = CliRunner().invoke(app, ["owners", "show", "ann", "--data-dir", str(data_dir)], env=environment).stdout
    rows = {line.split()[1]: line for line in shown.splitlines() if line.startswith("│")}
    assert "`headwater owners set`" in rows["workers"]
    assert "7" in rows["datasets"]
    assert "HEADWATER_QUOTA_DATASETS" in rows["datasets"]
    assert "variables of this command's environment" in shown
    assert "may differ from the default quotas of the running service" in shown


@pytest.mark.parametrize("value", ["-1", "many", "1.5", "٣", "", str(2**63), "9" * 5000])
def test_invalid_numbers_are_rejected(data_dir: Path, value: str) -> None:
    refused = run(data_dir, "set", "ann", "--max-workers", value)
    assert refused.exit_code == 2
    assert "--max-workers takes a whole number below 10^18, none or default." in refused.stderr


def test_set_needs_a_quota(data_dir: Path) -> None:
    assert "Name at least one quota" in run(data_dir, "set", "ann").stderr


def test_every_quota_has_a_flag() -> None:
    shown = CliRunner().invoke(app, ["owners", "set", "--help"], env={"COLUMNS": "400"}).stdout
    assert all(f"--max-{name.replace('_', '-')}" in shown for name in QUOTA_NAMES)
