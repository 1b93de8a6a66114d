"""`headwater keys` on the database of a data directory."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.app.data_directory import DataDirectory
from headwater.cli.application import app
from headwater.model.key import KEY_CACHE_S, SCOPES, parse_key

PAGE = Path(__file__).parents[3] / "docs/multi_tenancy.md"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path


def run(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments, "--data-dir", str(data_dir)])


def test_create_prints_only_the_key(data_dir: Path) -> None:
    result = run(data_dir, "create", "--owner", "ann", "--scope", "flow:read", "--scope", "sets:write")
    assert result.exit_code == 0
    assert parse_key(result.stdout.removesuffix("\n"))
    listed = run(data_dir, "list").stdout
    assert result.stdout[8:20] in listed
    assert "flow:read sets:write" in listed
    assert result.stdout[21:60] not in listed


def test_help_explains_the_scopes() -> None:
    shown = " ".join(CliRunner().invoke(app, ["keys", "create", "--help"], env={"COLUMNS": "400"}).stdout.split())
    assert "Default: flow:read, flow:write, flow:deploy, sets:write, prices:read." in shown
    assert "admin is reserved" in shown


def test_help_and_page_say_how_long_a_revoked_key_is_accepted() -> None:
    shown = " ".join(CliRunner().invoke(app, ["keys", "revoke", "--help"], env={"COLUMNS": "400"}).stdout.split())
    assert f"after {KEY_CACHE_S:.0f} s at the latest" in shown
    assert f"refuses a revoked key within {KEY_CACHE_S:.0f} s" in " ".join(PAGE.read_text().split())


def test_every_scope_is_explained() -> None:
    assert all(f"| `{scope}` |" in PAGE.read_text() for scope in SCOPES)


def test_a_sign_in_link_has_a_code_in_its_fragment(data_dir: Path) -> None:
    key = run(data_dir, "create", "--owner", "local").stdout
    DataDirectory(data_dir).api_key.write_text(key)
    result = run(data_dir, "sign-in-link", "--host", "0.0.0.0", "--port", "8123")
    assert result.exit_code == 0, result.output
    link, code = result.stdout.removesuffix("\n").split("#code=")
    assert link == "http://127.0.0.1:8123/console/sign-in"
    assert len(code) > 40
    again = run(data_dir, "sign-in-link", "--port", "8123")
    assert again.stdout != result.stdout
    audit = CliRunner().invoke(app, ["audit", "--data-dir", str(data_dir)]).stdout
    assert audit.count("key.create_code") == 2
    assert code not in audit


def test_a_sign_in_link_needs_a_valid_key_in_the_data_directory(data_dir: Path) -> None:
    run(data_dir, "list")
    missing = run(data_dir, "sign-in-link")
    assert (missing.exit_code, "There is no API key" in missing.output) == (2, True)
    DataDirectory(data_dir).api_key.write_text("x")
    invalid = run(data_dir, "sign-in-link")
    assert (invalid.exit_code, "is not valid, so no link can be made" in invalid.output) == (2, True)


def test_states(data_dir: Path) -> None:
    keys = {
        name: run(data_dir, "create", "--owner", name, *flags).stdout[8:20]
        for name, flags in (("forever", []), ("until", ["--expires", "2199-12-31T23:59:59"]), ("gone", []))
    }
    assert run(data_dir, "revoke", keys["gone"]).exit_code == 0
    lines = {name: next(x for x in run(data_dir, "list").stdout.splitlines() if name in x) for name in keys}
    assert "2199-12-31 23:59" in lines["until"]
    states = {name: re.findall("live|revoked|expired", line) for name, line in lines.items()}
    assert states == {"forever": ["live"], "until": ["live"], "gone": ["revoked"]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["create", "--owner", " "], "1 to 200 characters"),
        (["create", "--owner", "ann", "--scope", "flow:fly"], "No such scope: flow:fly"),
        (["create", "--owner", "ann", "--expires", "2020-01-01"], "The expiry 2020-01-01T00:00:00Z is in the past"),
        (["revoke", "unknown"], "There is no API key unknown"),
        (["revoke", "hw_live_abcdefghijkl_secret"], "12 characters after hw_live_"),
    ],
)
def test_errors_are_one_sentence_and_status_2(data_dir: Path, arguments: list[str], sentence: str) -> None:
    done = run(data_dir, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("headwater: ")
    assert sentence in done.stderr
    assert "_secret" not in done.stderr


def test_create_needs_an_owner(data_dir: Path) -> None:
    assert run(data_dir, "create").exit_code == 2


def test_a_missing_data_directory(data_dir: Path) -> None:
    done = run(data_dir / "missing", "list")
    assert done.exit_code == 2
    assert "or set HEADWATER_DATABASE_URL" in done.stderr


class TestRotateSecret:
    def test_encrypts_with_the_new_key(self, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert run(data_dir, "list").exit_code == 0
        old = (data_dir / "secret-key").rename(data_dir / "secret-key.old")
        monkeypatch.setenv("HEADWATER_OLD_SECRET_KEY_FILE", str(old))
        done = run(data_dir, "rotate-secret")
        assert (done.exit_code, done.stderr) == (0, "")
        assert "Encrypted the credentials of 0 deployments" in done.stdout
        assert "Remove HEADWATER_OLD_SECRET_KEY" in done.stdout
        assert (data_dir / "secret-key").read_text() != old.read_text()

    def test_needs_the_old_key(self, data_dir: Path) -> None:
        done = run(data_dir, "rotate-secret")
        assert done.exit_code == 2
        assert "Set HEADWATER_OLD_SECRET_KEY to the current key" in done.stderr

    def test_needs_another_key(self, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert run(data_dir, "list").exit_code == 0
        monkeypatch.setenv("HEADWATER_OLD_SECRET_KEY_FILE", str(data_dir / "secret-key"))
        done = run(data_dir, "rotate-secret")
        assert done.exit_code == 2
        assert "are the same. Make a new key" in done.stderr
