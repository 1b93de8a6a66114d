"""Measures the command line: its start, pipelines as files, and imports of values.

`python -m benches.command_line` runs it. The references of the same run are requests with the same number of values
that are written beforehand (benches/uploads.py).
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import typer

from benches._installation import running_installation
from benches.uploads import FILTER, UPLOADS, Api, at_once, send, write_body
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST
from tests.acceptance.installation import Installation, pipeline

COMMAND = Path(sys.executable).with_name("headwater")
SCRIPT = "function process(t) {{ return {{ ...t, number: {number} }}; }}\n"
PIPELINE = """
source: {{chain: base, entity: erc20_token_transfer}}
transforms:
  - name: token
    redis_set_filter: {{expr: root = this.token_address, values: {values}}}
  - name: number
    v8: {{file: scripts/p{number}.js}}
sinks: [{{type: kafka, name: out}}]
"""
CASES = """
pipeline: p{number}
cases:
"""
CASE = """
  - name: case {name}
    records: [{{token_address: "0x1", id: {name}}}, {{token_address: "0x2"}}]
    expect: {{out: [{{id: {name}, number: {number}}}]}}
"""
STARTS = 5


class Usage(NamedTuple):
    """The time of a command, in seconds of the clock and of the CPU, and its output."""

    wall_s: float
    cpu_s: float
    output: str


class Shell:
    """Runs the command in a folder."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        self._folder = folder
        connection = {"HEADWATER_URL": installation.url, "HEADWATER_KEY": installation.key}
        self._environment = {**os.environ, **connection, "XDG_CACHE_HOME": str(folder.parent / "cache")}

    def run(self, *arguments: str) -> Usage:
        """Run a command, which must succeed."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        ended = subprocess.run(
            [COMMAND, *arguments], cwd=self._folder, env=self._environment, capture_output=True, text=True
        )
        wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Usage(wall_s, cpu_s, ended.stdout)

    def report(self, label: str, *arguments: str) -> Usage:
        """Run a command and print its time."""
        used = self.run(*arguments)
        typer.echo(f"{label:44} {used.wall_s:7.2f} s, {used.cpu_s:6.2f} s of CPU")
        return used


def starts(shell: Shell) -> None:
    """Measure commands that are short. The first run is not counted."""
    for arguments in (("--help",), ("flows", "list")):
        shell.run(*arguments)
        used = sorted(shell.run(*arguments)[:2] for _ in range(STARTS))[STARTS // 2]
        typer.echo(f"{' '.join(arguments):44} {used[0]:7.2f} s, {used[1]:6.2f} s of CPU (median of {STARTS})")


def write_folder(folder: Path, pipelines: int) -> None:
    """Write a project of pipelines with a filter and a script each."""
    (folder / "scripts").mkdir(parents=True)
    (folder / "headwater.yaml").write_text("project: bench\n")
    for number in range(pipelines):
        (folder / f"p{number}.yaml").write_text(PIPELINE.format(number=number, values='["0x1"]'))
        (folder / "scripts" / f"p{number}.js").write_text(SCRIPT.format(number=number))


def cases(shell: Shell, folder: Path, pipelines: int, count: int) -> None:
    """Measure cases of some pipelines."""
    (folder / "tests").mkdir()
    for number in range(pipelines):
        written = [CASE.format(number=number, name=name) for name in range(count // pipelines)]
        (folder / "tests" / f"p{number}.test.yaml").write_text(CASES.format(number=number) + "".join(written))
    used = shell.report(f"test of {count} cases of {pipelines} pipelines", "test")
    assert f"{count} of {count} passed" in used.output, used.output


def write_csv(path: Path, count: int) -> None:
    """Write random addresses with a second column."""
    with path.open("w") as file:
        file.write("address,note\n")
        for _ in range(0, count, 10_000):
            digits = os.urandom(200_000).hex()
            file.write("".join([f"0x{digits[i : i + 40]},x\n" for i in range(0, 400_000, 40)]))


def files(shell: Shell, folder: Path, pipelines: int, values: Path, count: int) -> None:
    """Measure plans and applications of a folder."""
    shell.report(f"first apply of {pipelines} pipelines", "apply")
    document = PIPELINE.format(number=0, values=f"{{file: {values.name}, column: address, mode: replace}}")
    (folder / "p0.yaml").write_text(document)
    used = shell.report(f"apply of {count:,} values", "apply")
    typer.echo(f"  {count / used.wall_s:,.0f} values/s")
    time.sleep(2.5)  # a file that has just been written is not remembered
    shell.report("plan that reads the values", "plan")
    used = shell.report("plan without changes", "plan", "--exit-code")
    assert f"Nothing to do: all {pipelines} pipelines" in used.output, used.output
    (folder / "scripts" / "p1.js").write_text(SCRIPT.format(number=-1))
    used = shell.report("apply of one changed script", "apply")
    assert [line.split()[1] for line in used.output.splitlines()] == ["p1"], used.output


def imports(installation: Installation, shell: Shell, values: Path, count: int) -> None:
    """Measure an import by parts, and a replacement in one request, beside their references."""
    api = Api(installation.port, installation.key)
    with installation.client() as client:
        flow = client.post("/api/v1/flow", json=pipeline(transforms=[{**FILTER, "name": "wallets"}])).json()
    uid = flow["pipeline_config"]["transforms"][0]["uid"]
    path = f"/api/v1/flow/{flow['id']}/transforms/{uid}/filter-values"
    with tempfile.TemporaryDirectory() as name:
        bodies = [Path(name) / f"{number}.json" for number in range(UPLOADS)]
        parts_at_once(api, path, bodies)
        arguments = ("filters", "import", flow["id"], "wallets", str(values), "--column", "address")
        used = shell.report(f"import of {count:,} values", *arguments)
        typer.echo(f"  {count / used.wall_s:,.0f} values/s: {used.output.strip()}")
        parts_at_once(api, path, bodies)
        one_put(api, path, bodies[0], count)
        replace = ("filters", "replace", flow["id"], "wallets", "--file", str(values), "--column", "address", "--yes")
        used = shell.report(f"replacement by {count:,} values", *replace)
        typer.echo(f"  {count / used.wall_s:,.0f} values/s")
        one_put(api, path, bodies[0], count)


def parts_at_once(api: Api, path: str, bodies: list[Path]) -> None:
    """Measure parts with new values."""
    for body in bodies:
        write_body(body, MAX_VALUES_PER_REQUEST)
    at_once(api, path, bodies)


def one_put(api: Api, path: str, body: Path, count: int) -> None:
    """Measure a replacement by new values in one request."""
    write_body(body, count)
    took, _ = send(api, "PUT", path, body)
    typer.echo(f"PUT of {count:,} values: {took:.1f} s, {count / took:,.0f} values/s")


def main(pipelines: int = 50, values: int = 10_000_000) -> None:
    """Run the benchmark on a new installation."""
    with tempfile.TemporaryDirectory() as name, running_installation() as installation:
        folder = Path(name) / "pipelines"
        write_folder(folder, pipelines)
        write_csv(folder / "values.csv", values)
        cases(Shell(installation, folder), folder, 4, 20)
        shell = Shell(installation, folder)
        files(shell, folder, pipelines, folder / "values.csv", values)
        starts(shell)
        imports(installation, shell, folder / "values.csv", values)


if __name__ == "__main__":
    typer.run(main)
