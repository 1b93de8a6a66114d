"""Flags, variables and defaults of settings."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli import app

RUN = CliRunner()


class TestSettings:
    def test_every_setting_is_shown_with_its_origin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_PORT", "8123")
        monkeypatch.setenv("COLUMNS", "300")
        shown = RUN.invoke(app, ["settings", "--log-level", "debug"])
        assert shown.exit_code == 0
        rows = {line.split("│")[1].strip(): line for line in shown.stdout.splitlines() if "│" in line}
        assert "8123" in rows["HEADWATER_PORT"]
        assert "flag" in rows["HEADWATER_LOG_LEVEL"]
        assert "default" in rows["HEADWATER_HOST"]

    def test_secrets_are_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD", "very-secret")
        monkeypatch.setenv("COLUMNS", "300")
        assert "very-secret" not in RUN.invoke(app, ["settings"]).stdout

    def test_flags_win_over_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_PORT", "8123")
        monkeypatch.setenv("COLUMNS", "300")
        assert "8124" in RUN.invoke(app, ["settings", "--port", "8124"]).stdout

    def test_what_is_not_valid_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_PORT", "eighty")
        refused = RUN.invoke(app, ["settings"])
        assert refused.exit_code == 2
        assert "HEADWATER_PORT" in refused.stderr


class TestKeys:
    def test_create_list_revoke(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        place = ["--data-dir", str(tmp_path)]
        created = RUN.invoke(app, ["keys", "create", "--owner", "alice", "--scope", "flow:read", *place])
        assert created.exit_code == 0, created.stderr
        (key,) = created.stdout.split()
        key_id = key.removeprefix("hw_live_")[:12]
        listed = RUN.invoke(app, ["keys", "list", *place]).stdout
        assert key_id in listed
        assert "alice" in listed
        assert key not in listed
        assert RUN.invoke(app, ["keys", "revoke", key_id, *place]).exit_code == 0
        assert "revoked" in RUN.invoke(app, ["keys", "list", *place]).stdout

    def test_an_unknown_scope_and_an_unknown_key(self, tmp_path: Path) -> None:
        place = ["--data-dir", str(tmp_path)]
        scope = RUN.invoke(app, ["keys", "create", "--owner", "alice", "--scope", "everything", *place])
        assert scope.exit_code == 2
        assert "flow:read" in scope.stderr
        assert RUN.invoke(app, ["keys", "revoke", "x" * 12, *place]).exit_code == 2
