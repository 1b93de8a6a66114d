"""The commands of this package as part of the command `headwater`."""

import subprocess
import sys

import typer

from headwater.cli import commands
from headwater.cli.application import app


def test_all_commands_are_listed_with_their_help() -> None:
    group = typer.main.get_command(app)
    found = {name: command.get_short_help_str(200) for name, command in group.commands.items()}  # type: ignore[attr-defined]
    assert {*found, commands.SERVER} == commands.NAMES
    shown = {name: text for name, text in commands.HELP_TEXTS.items() if name != commands.SERVER}
    assert shown == {name: found[name] for name in shown}
    prices = group.commands["prices"].commands  # type: ignore[attr-defined]
    assert set(commands.SERVER_PRICES_COMMANDS) == set(prices)


def run(*arguments: str) -> str:
    program = "import sys; from headwater_client.cli import main; sys.argv[0] = 'headwater'; main()"
    ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_one_command_has_the_commands_of_the_client_and_of_the_server() -> None:
    help_text = run("--help")
    assert "Make the server have what the folder describes." in help_text
    assert commands.HELP_TEXTS["up"] in help_text
    assert "Usage: headwater server keys list" in run("server", "keys", "list", "--help")
    assert "Usage: headwater keys list" in run("keys", "list", "--help")
    assert "prices of tokens" in run("prices", "get", "--help")
