"""Flags, variables and defaults of settings."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.application import app
from headwater.settings import Settings

RUN = CliRunner()


class TestSettings:
    def test_every_setting_is_shown_with_its_origin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_PORT", "8123")
        monkeypatch.setenv("COLUMNS", "300")
        shown = RUN.invoke(app, ["settings", "--log-level", "debug"])
        assert shown.exit_code == 0
        rows = {line.split("│")[1].strip(): line for line in shown.stdout.splitlines() if "│" in line}
        assert rows["HEADWATER_PORT"].count("8123") == 1
        assert rows["HEADWATER_PORT"].count("HEADWATER_PORT") == 2
        assert "flag" in rows["HEADWATER_LOG_LEVEL"]
        assert "default" in rows["HEADWATER_HOST"]

    def test_secrets_are_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD", "very-secret")
        monkeypatch.setenv("COLUMNS", "300")
        assert "very-secret" not in RUN.invoke(app, ["settings"]).stdout

    def test_flags_win_over_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_PORT", "8123")
        monkeypatch.setenv("COLUMNS", "300")
        shown = RUN.invoke(app, ["settings", "--port", "8124"]).stdout
        (row,) = [line for line in shown.splitlines() if "HEADWATER_PORT" in line]
        assert [cell.strip() for cell in row.split("│")[2:4]] == ["8124", "flag"]

    def test_invalid_values_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_PORT", "eighty")
        refused = RUN.invoke(app, ["settings"])
        assert refused.exit_code == 2
        assert "HEADWATER_PORT" in refused.stderr

    @pytest.mark.parametrize("name", ["stream_bindings", "ingests"])
    def test_an_empty_variable_of_a_path_is_not_set(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(f"HEADWATER_{name.upper()}", "")
        assert getattr(Settings(), name) is None

    @pytest.mark.parametrize("name", ["stream_bindings", "ingests"])
    def test_a_path_may_begin_with_the_home_directory(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(f"HEADWATER_{name.upper()}", "~/file.json")
        assert getattr(Settings(), name) == Path.home() / "file.json"

    def test_a_log_level_in_any_case(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_LOG_LEVEL", "Warning")
        assert RUN.invoke(app, ["settings"]).exit_code == 0
        assert RUN.invoke(app, ["settings", "--log-level", "DEBUG"]).exit_code == 0

    def test_an_invalid_log_level(self, monkeypatch: pytest.MonkeyPatch) -> None:
        flag = RUN.invoke(app, ["ingest", "run", "mine", "--log-level", "loud"])
        assert (flag.exit_code, "--log-level" in flag.stderr) == (2, True)
        monkeypatch.setenv("HEADWATER_LOG_LEVEL", "loud")
        refused = RUN.invoke(app, ["ingest", "run", "mine"])
        assert refused.exit_code == 2
        assert "HEADWATER_LOG_LEVEL or --log-level) is not valid" in refused.stderr
        assert "'warning'" in refused.stderr

    @pytest.mark.parametrize("name", ["HEADWATER_KAFKA_SECURITY_PROTOCOL", "HEADWATER_KAFKA_SASL_MECHANISM"])
    def test_how_to_log_in_to_kafka_is_checked(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(name, "NONE")
        refused = RUN.invoke(app, ["settings"])
        assert refused.exit_code == 2
        assert name in refused.stderr

    def test_the_error_for_a_kerberos_flag_names_the_alternative(self) -> None:
        refused = RUN.invoke(app, ["settings", "--kafka-sasl-mechanism", "gssapi"])
        assert refused.exit_code == 2
        assert "GSSAPI (Kerberos) is not supported" in refused.stderr
        assert "SCRAM-SHA-512, OAUTHBEARER or client certificates" in refused.stderr

    def test_a_mechanism_in_any_case(self) -> None:
        assert RUN.invoke(app, ["settings", "--kafka-sasl-mechanism", "scram-sha-256"]).exit_code == 0


class TestSecrets:
    @pytest.fixture
    def file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "password"
        path.write_text("very-secret\n")
        monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD_FILE", str(path))
        monkeypatch.setenv("COLUMNS", "300")
        return path

    @pytest.mark.parametrize("flag", ["--database-url", "--redis-url", "--secret-key", "--kafka-password"])
    @pytest.mark.parametrize("command", [["settings"], ["up"], ["api"], ["prices", "worker"]])
    def test_the_error_for_a_secret_flag_names_the_variable(self, flag: str, command: list[str]) -> None:
        variable = f"HEADWATER_{flag[2:].replace('-', '_').upper()}"
        for arguments in ([flag, "very-secret"], [f"{flag}=very-secret"]):
            refused = RUN.invoke(app, [*command, *arguments])
            assert refused.exit_code == 2
            assert f"{flag} is not accepted" in refused.stderr
            assert f"Set the variable {variable}, or {variable}_FILE to the path" in refused.stderr
            assert "very-secret" not in refused.output

    def test_help_shows_no_flag_of_a_secret(self) -> None:
        shown = RUN.invoke(app, ["up", "--help"]).stdout
        assert "--kafka-username" in shown
        assert "--kafka-password" not in shown

    def test_a_file_is_shown_as_the_origin_and_its_content_is_not(self, file: Path) -> None:
        shown = RUN.invoke(app, ["settings"]).stdout
        assert "very-secret" not in shown
        (row,) = [line for line in shown.splitlines() if "HEADWATER_KAFKA_PASSWORD" in line]
        assert [cell.strip() for cell in row.split("│")[2:4]] == ["**********", "HEADWATER_KAFKA_PASSWORD_FILE"]

    def test_a_variable_and_a_file_exclude_each_other(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD", "another")
        refused = RUN.invoke(app, ["settings"])
        assert refused.exit_code == 2
        assert "Both HEADWATER_KAFKA_PASSWORD and HEADWATER_KAFKA_PASSWORD_FILE are set" in refused.stderr

    def test_an_empty_variable_does_not_hide_a_file(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADWATER_KAFKA_PASSWORD", "")
        assert Settings().kafka_password.get_secret_value() == "very-secret"

    @pytest.mark.parametrize(
        ("content", "error"), [(None, "can't be read (No such file"), (b" \n", "is empty"), (b"\xff\xfe", "not UTF-8")]
    )
    def test_a_file_that_cannot_be_used(self, file: Path, content: bytes | None, error: str) -> None:
        file.unlink() if content is None else file.write_bytes(content)
        refused = RUN.invoke(app, ["settings"])
        assert refused.exit_code == 2
        assert f"HEADWATER_KAFKA_PASSWORD_FILE names {file}, which" in refused.stderr
        assert error in refused.stderr


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
