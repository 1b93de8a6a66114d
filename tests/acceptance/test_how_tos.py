"""A new user follows the tutorial and the how-tos, with all commands as printed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.installation import ROOT, Installation
from tests.support.postgres_server import PostgresServer

PARTS = re.compile(r"```(sh|python)\n(.*?)```|Save it as `([\w.]+)`", re.DOTALL)
RUNS = "until headwater flows list | grep -q '● runs'; do sleep 0.5; done"
WITHIN_S = 240


class Reader:
    """Follows pages in one folder, in which `headwater up` runs.

    Attributes:
        variables: Environment variables that the reader sets before a page.
    """

    def __init__(self, installation: Installation, folder: Path) -> None:
        self.folder = folder
        (folder / ".headwater").symlink_to(installation.data_dir)
        (folder / ".venv").symlink_to(sys.prefix)
        self.variables = {
            **installation.environment,
            "HEADWATER_URL": installation.url,
            "HEADWATER_KEY": installation.key,
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def follow(self, page: str) -> str:
        """Save the programs of a page, run its commands in order, and return what they print."""
        commands, program = ["set -euo pipefail"], ""
        for kind, text, name in PARTS.findall((ROOT / "docs" / page).read_text("utf-8")):
            if name:
                (self.folder / name).write_text(program)
            elif kind == "python":
                program = text
            elif "headwater up" not in text:
                commands.append(self._with_waits(text))
        ended = subprocess.run(
            ["bash", "-c", "\n".join(commands)],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    @staticmethod
    def _with_waits(block: str) -> str:
        """Return a block of commands, with the time that people take to read and type."""
        block = re.sub(r"^(headwater dead-letters summary .*)$", r"until \1 | grep Error; do sleep 1; done", block)
        return f"{block}{RUNS}\n" if "headwater apply" in block else block


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_new_user_follows_the_pages(installation: Installation, tmp_path: Path) -> None:
    reader = Reader(installation, tmp_path)
    printed = reader.follow("tutorial.md")
    for text in (
        "2 of 2 passed",
        "✓ watch-wallets   created, deployed",
        '"amount":"12.5"',
        "values  +1 −0 of 2 (replace)",
        "in the filter",
        "TypeError",
        "1 delivered, 0 dropped, 0 failed again",
    ):
        assert text in printed, printed

    printed = reader.follow("watch_a_million_wallets.md")
    assert "✓ 1,000,000 of 1,000,000 values were new" in printed
    assert printed.rstrip().endswith("gone")

    postgres = PostgresServer()
    try:
        postgres.start()
        reader.variables["DATABASE"] = postgres.url()
        assert "Decimal('12.5')" in reader.follow("to_postgresql.md")
        counted = postgres.execute("SELECT count(*), count(DISTINCT headwater_src) FROM transfers")
        reader.follow("to_postgresql.md")
        assert postgres.execute("SELECT count(*), count(DISTINCT headwater_src) FROM transfers") == counted
    finally:
        postgres.remove()

    with HTTPServer(port=0) as slack:
        slack.expect_oneshot_request("/hook").respond_with_data("slow down", 429, {"Retry-After": "1"})
        slack.expect_request("/hook").respond_with_data("ok")
        reader.variables["SLACK_WEBHOOK"] = slack.url_for("/hook")
        reader.follow("alert_slack.md")
        messages = [json.loads(request.data)["text"] for request, _ in slack.log]
    assert len(messages) > 1
    assert set(messages) == {"12.5 moved by 0x5c1a7f03d2b84e6990aa41c7d3f0b6e2918c4d57"}
    subprocess.run(["headwater", "flows", "delete", "watch wallets", "--yes"], env=reader.variables, check=True)
