"""`headwater prices enable` with options that can't be right."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.app.recipes import KEY_VARIABLE
from headwater.cli import app

KEY = "hw_live_abc"
EVM = ("uniswap-v3", "--chain", "base")


def refused(folder: Path, *command: str, key: str = KEY) -> str:
    arguments = ["prices", "enable", *command, "--data-dir", str(folder)]
    done = CliRunner().invoke(app, arguments, env={KEY_VARIABLE: key})
    assert done.exit_code == 2, done.exception
    return done.stderr


def test_an_address_that_is_none(tmp_path: Path) -> None:
    assert "http://[::1 is no URL" in refused(tmp_path, *EVM, "--url", "http://[::1")


@pytest.mark.parametrize("key", ["hw_live_äbc", "hw_live\nabc"])
def test_a_key_that_is_none(tmp_path: Path, key: str) -> None:
    assert "The API key has characters that no key has" in refused(tmp_path, *EVM, key=key)


def test_a_stored_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_bytes(b"hw_live_\xff")
    assert "The API key has characters that no key has" in refused(tmp_path, *EVM, key="")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("hyperliquid", "--pools", "x.csv"), "--pools and --learn are for other recipes"),
        (("hyperliquid", "--learn", "x", "--markets", "x"), "--pools and --learn are for other recipes"),
        ((*EVM, "--markets", "x", "--pools", "x"), "--markets is for hyperliquid alone"),
    ],
)
def test_options_of_other_recipes(tmp_path: Path, command: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(tmp_path, *command)
