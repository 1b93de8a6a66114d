import sys

import pytest
import structlog

from headwater.logging_setup import configure_logging


@pytest.mark.parametrize("in_terminal", [False, True])
def test_a_traceback_names_the_error_and_no_values(
    in_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: in_terminal)
    before = structlog.get_config()
    try:
        configure_logging("info")
        log_an_error("open" + "sesame")
    finally:
        structlog.configure(**before)

    output = capsys.readouterr().err
    assert "it broke" in output
    assert "ZeroDivisionError" in output
    assert "opensesame" not in output


def log_an_error(password: str) -> None:
    try:
        assert len(password) / 0
    except ZeroDivisionError:
        structlog.get_logger("test").exception("it broke")
