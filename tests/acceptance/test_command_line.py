"""Pipelines as files, and the command line, as a user types them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.installation import ROOT, Installation
from tests.support.ports import free_port
from tests.support.waiting import until

COMMAND = Path(sys.executable).with_name("headwater")
EXAMPLE = ROOT / "examples" / "wallets"
TOKEN = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
WHALE = "0x20fe51a9229eef2cf8ad9e89d91cab9312cf3b7a"
SCRIPTED = """
source: {chain: base, entity: erc20_token_transfer}
transforms:
  - name: only
    v8: {script: "function process(t) { return t; }"}
sinks: [{type: kafka, name: out}]
"""


class Shell:
    """Runs commands in a folder, with an installation in the environment."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        self.folder = folder
        self.client = installation.client()
        self.environment = {
            **os.environ,
            "HEADWATER_URL": installation.url,
            "HEADWATER_KEY": installation.key,
            "XDG_CACHE_HOME": str(folder.parent / "cache"),
            "XDG_CONFIG_HOME": str(folder.parent / "config"),
        }

    def run(self, *arguments: str, code: int = 0, **variables: str) -> str:
        """Run a command, check its exit status, and return its output and its errors."""
        ended = subprocess.run(
            [COMMAND, *arguments],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def flows(self) -> list[dict[str, Any]]:
        """Return all configurations, without a command."""
        found: list[dict[str, Any]] = self.client.get("/api/v1/flow").json()
        return found

    def conditions(self) -> list[str]:
        """Return the conditions of all deployments, without a command."""
        return [self.client.get(f"/api/v1/flow/{flow['id']}/deploy").json()["condition"] for flow in self.flows()]

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def start(self, *arguments: str, errors: int | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def project(self, name: str, *pipelines: str) -> None:
        """Make the folder a project of pipelines with one script each."""
        for file in self.folder.glob("*.yaml"):
            file.unlink()
        self.write("headwater.yaml", f"project: {name}\n")
        for pipeline in pipelines:
            self.write(f"{pipeline}.yaml", SCRIPTED)


@pytest.fixture
def shell(installation: Installation, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(installation, tmp_path / "pipelines")
    shell.folder.mkdir()
    yield shell
    for flow in shell.flows():
        assert shell.client.delete(f"/api/v1/flow/{flow['id']}").status_code == 200
    shell.client.close()


class TestExample:
    @pytest.mark.long
    def test_as_printed(self, shell: Shell, installation: Installation) -> None:
        shutil.copytree(EXAMPLE, shell.folder, dirs_exist_ok=True)
        page = (ROOT / "docs" / "pipelines_as_files.md").read_text()
        printed = page.split("$ headwater plan examples/wallets\n")[1].split("\n$ headwater apply")[0]
        planned = shell.run("plan", "--exit-code", code=2)
        assert planned.strip().replace(installation.url, "http://127.0.0.1:8080") == printed.strip()
        assert "✓ usdc-whales   created, deployed" in shell.run("apply")
        assert "Nothing to do: all 1 pipelines are as the files say." in shell.run("plan", "--exit-code")

        transfer = {"token_address": TOKEN, "from_address": WHALE, "raw_amount_str": "12500000"}
        with shell.start("flows", "tail", "usdc whales", "--limit", "1") as tail:
            until(lambda: _fed(installation, transfer, tail), 60, "the end of the tail")
            assert tail.stdout is not None
            assert json.loads(tail.stdout.read())["usdc"] == 12.5
        until(lambda: shell.conditions() == ["Stable"], 60, "the end of the rollout")
        listed = shell.run("flows", "list")
        assert "● runs" in listed
        assert "base.erc20_token_transfer" in listed

        assert shell.json("filters", "add", "usdc whales", "whales", "0xAB")["added"] == 1
        assert shell.run("filters", "check", "wallets/usdc-whales", "whales", "0xab").strip() == "in the filter"
        script = (EXAMPLE / "scripts" / "usdc.ts").read_text()
        shell.write("scripts/usdc.ts", script.replace("usdc:", "usd:"))
        planned = shell.run("plan")
        for text in (
            "~ usdc-whales                          redeploys without interruption",
            "  ~ transforms.enrich  scripts/usdc.ts",
            "      4 +   return { ...t, usd: Number(BigInt(t.raw_amount_str)) / 1e6 };",
            "  ~ transforms.whales  values  +0 −1 of 4 (replace)",
        ):
            assert text in planned
        assert "✓ usdc-whales   saved, values written, revision 2 runs" in shell.run("apply")
        assert shell.run("filters", "count", "usdc whales", "whales").strip() == "3"
        assert "Nothing to do" in shell.run("plan", "--exit-code")

    def test_export_and_apply(self, shell: Shell) -> None:
        shutil.copytree(EXAMPLE, shell.folder, dirs_exist_ok=True)
        shell.run("apply")
        copy = str(shell.folder.parent / "copy")
        shell.run("export", copy, "--project", "wallets")
        assert "Nothing to do" in shell.run("plan", copy, "--exit-code")


def _fed(installation: Installation, record: dict[str, Any], tail: "subprocess.Popen[str]") -> bool:
    """Write the record once more, and return whether the tail has ended.

    A tail shows only what follows its start.
    """
    installation.feed("base", "erc20_token_transfer", [record])
    try:
        return tail.wait(1) == 0
    except subprocess.TimeoutExpired:
        return False


class TestApply:
    def test_killed_at_any_moment_and_run_again(self, shell: Shell) -> None:
        shell.project("killed", "a", "b", "c", "d")
        for lines in range(2):
            with shell.start("apply") as started:
                assert started.stdout is not None
                for _ in range(lines):
                    started.stdout.readline()
                started.send_signal(signal.SIGKILL)
        shell.run("apply")
        assert "Nothing to do: all 4 pipelines are as the files say." in shell.run("plan", "--exit-code", "--prune")
        assert sorted(flow["external_id"] for flow in shell.json("flows", "list")) == [
            f"killed/{key}" for key in "abcd"
        ]

    def test_prune_removes_pipelines_of_this_project_alone(self, shell: Shell) -> None:
        shell.project("other", "x")
        shell.run("apply")
        shell.project("mine", "a", "b")
        shell.run("apply")
        before = {flow["external_id"]: flow["revision"] for flow in shell.json("flows", "list")}
        (shell.folder / "b.yaml").unlink()
        assert "0 to remove (1 with --prune)." in shell.run("plan")
        assert "Add --yes." in shell.run("apply", "--prune", code=64)
        assert "✓ b   removed" in shell.run("apply", "--prune", "--yes")
        after = {flow["external_id"]: flow["revision"] for flow in shell.json("flows", "list")}
        assert after == {key: revision for key, revision in before.items() if key != "mine/b"}

    def test_a_wrong_script_says_where(self, shell: Shell) -> None:
        shell.project("wrong", "a", "b")
        shell.write("b.yaml", SCRIPTED.replace("return t;", "return t"))
        shell.write("a.yaml", SCRIPTED.replace("{ return t; }", "{ return"))
        ended = shell.run("apply", code=1)
        assert "✗ a" in ended
        assert "/pipeline_config/transforms/0/script" in ended
        assert "✓ b   created, deployed" in ended


class TestExitStatus:
    def test_of_errors(self, shell: Shell) -> None:
        assert "`headwater flows list` shows your pipelines." in shell.run("flows", "get", "nothing", code=3)
        assert json.loads(shell.run("flows", "get", "nothing", "--json", code=3))["status"] == 404
        assert "Set HEADWATER_KEY" in shell.run("flows", "list", "--key", "hw_live_x", code=4)
        nowhere = f"http://127.0.0.1:{free_port()}"
        assert "headwater up" in shell.run("status", "--url", nowhere, code=5)
        assert "No such command" in shell.run("flows", "nothing", code=64)
        assert "There is no headwater.yaml" in shell.run("plan", code=64)
        assert "There is no API key" in shell.run("flows", "list", code=64, HEADWATER_KEY="")

    def test_two_pipelines_with_one_name_are_listed(self, shell: Shell) -> None:
        shell.project("twins", "a", "b")
        for pipeline in "ab":
            shell.write(f"{pipeline}.yaml", f"name: twin\ndeploy: false\n{SCRIPTED}")
        shell.run("apply")
        ids = [flow["id"] for flow in shell.json("flows", "list")]
        refused = shell.run("flows", "get", "twin", code=64)
        assert all(config_id in refused for config_id in ids)
        assert shell.json("flows", "get", "twins/a")["name"] == "twin"
        shell.run("flows", "delete", ids[0], "--yes")
        assert [flow["id"] for flow in shell.flows()] == ids[1:]

    def test_a_closed_pipe_ends_a_command(self, shell: Shell) -> None:
        piped = f"set -o pipefail; {COMMAND} streams list --json | head -c 10 > /dev/null"
        ended = subprocess.run(["bash", "-c", piped], env=shell.environment, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_status(shell: Shell) -> None:
    state = shell.json("status")
    assert state["ready"]
    assert state["key"]["owner"] == "local"
    assert "is ready" in shell.run("status")


class TestTemplates:
    def test_they_are_tested_planned_and_applied_as_they_are(self, shell: Shell) -> None:
        listed = shell.json("new")
        assert sorted(listed) == ["decoded-events", "large-transfers", "price-feed", "watch-wallets"]
        for template in listed:
            assert f"✓ {template}.yaml" in shell.run("new", template, ".")
        assert "0 to change, 4 to create, 0 to remove." in shell.run("plan")
        assert "passed (" in shell.run("test")
        applied = shell.run("apply")
        assert all(f"✓ {template}   created, deployed" in applied for template in listed)
        assert "Nothing to do: all 4 pipelines are as the files say." in shell.run("plan", "--exit-code")


@pytest.mark.long
def test_an_interrupted_import_goes_on(shell: Shell) -> None:
    total = 1_000_000
    shell.project("imports", "a")
    shell.write(
        "a.yaml",
        SCRIPTED.replace("transforms:", "transforms:\n  - name: ids\n    redis_set_filter: {expr: root = this.id}"),
    )
    shell.run("apply")
    shell.write("values.csv", "id,note\n" + "".join(f"{number:08x},x\n" for number in range(total)))
    arguments = ("filters", "import", "imports/a", "ids", "values.csv", "--column", "id")
    with shell.start(*arguments, errors=subprocess.PIPE) as started:
        until(lambda: shell.json("filters", "count", "imports/a", "ids")["count"] > 0, 60, "the first part")
        started.send_signal(signal.SIGINT)
        assert started.stderr is not None
        advice = started.stderr.read()
    if started.returncode == 0:
        return  # it was faster than the signal
    assert started.returncode == 130
    skip = advice.rpartition("--skip ")[2].rstrip("`.\n")
    ended = shell.run(*arguments, "--skip", skip)
    assert f" of {total - int(skip):,} values were new" in ended
    assert shell.json("filters", "count", "imports/a", "ids")["count"] == total


def test_values_of_files(shell: Shell) -> None:
    shell.write("values.csv", "name,wallet\nann,0xAB\nbob,0xCD\n")
    shell.run("datasets", "create", "watched")
    try:
        assert "✓ 2 of 2 values were new" in shell.run(
            "datasets", "import", "watched", "values.csv", "--column", "wallet"
        )
        assert sorted(shell.run("datasets", "export", "watched").split()) == ["0xab", "0xcd"]
        assert "not in the dataset" in shell.run("datasets", "check", "watched", "0xef", code=3)
    finally:
        shell.run("datasets", "delete", "watched", "--yes")
