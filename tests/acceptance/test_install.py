"""A new user installs the wheels on a machine with Python alone, and follows the README."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.debian import unpack_root

ROOT = Path(__file__).parents[2]
PACKAGES = ("curl", "jq", "python3", "python3-venv")
"""Python, and the two programs that the README's commands use."""
USER_ID = 1000
HOME = "home/user"
LONG_RUNNING = {"headwater up": "Headwater is ready", '["python"]': '"usdc":12.5'}
"""For each part of a command that runs until Ctrl-C, the output after which the reader goes to the next command."""
ENTER = """
ip link set lo up
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
chroot --userspec="$2" --groups= "$1" env -i HOME="/$3" PATH=/usr/bin:/bin LANG=C.UTF-8 PIP_NO_INDEX=1 \
  PYTHONUNBUFFERED=1 bash "/$3/commands" || exit $?
"""
"""The shell is the first process of its namespace, so all processes end with it, and it ends with `unshare`."""
WITHIN_S = 600


def lacking() -> str:
    """Return what this machine lacks for the test, as a sentence; empty when it lacks nothing."""
    missing = [program for program in ("debootstrap", "unshare", "ip") if shutil.which(program) is None]
    if os.geteuid() != 0:
        missing.append("root")
    return f"The test of the installation needs {', '.join(missing)}." if missing else ""


def code_blocks(section: str) -> list[str]:
    """Return the code blocks of a section of the README."""
    text = (ROOT / "README.md").read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [textwrap.dedent(block) for block in re.findall(r"```\n(.*?)```", text, re.DOTALL)]


def build(dist: Path) -> None:
    """Build the wheels, and put the wheels of all requirements beside them.

    The root file system may have an older 3.11 than this Python, so requirements of older ones are downloaded too.
    """
    made = subprocess.run(
        ["make", "--old-file=.venv/ready", "dist", f"DIST={dist}", f"BIN={Path(sys.executable).parent}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    pinned = dist.parent / "requirements.txt"
    pinned.write_text(re.sub(r" ; python_full_version < '3\.11\.\d+'", "", (dist / "requirements.txt").read_text()))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--require-hashes"]
    subprocess.run([*pip, "-r", pinned, "--dest", dist], check=True)


def script(blocks: list[str]) -> str:
    """Return a Bash script that runs the blocks like a user with a second terminal."""
    lines = ["set -euo pipefail -o monitor", "cd ~/headwater", "jobs=()"]
    for number, block in enumerate(blocks):
        [*shown] = [text for part, text in LONG_RUNNING.items() if part in block]
        if shown:
            lines += [f"(\n{block}) > log-{number} 2>&1 &", "jobs+=($!)"]
            lines.append(f"until grep -q '{shown[0]}' log-{number}; do kill -0 ${{jobs[-1]}}; sleep 0.1; done")
        else:
            lines.append(block)
        lines.append(f'echo "block {number} done after $SECONDS s"')
    lines.append('for job in "${jobs[@]}"; do kill -- "-$job"; wait "$job" || echo "status $?"; done')
    return "\n".join(lines)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_python_alone_is_enough_for_the_readme(tmp_path: Path) -> None:
    if reason := lacking():
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    system = tmp_path / "system"
    unpack_root(system, PACKAGES)
    folder = system / HOME / "headwater"
    folder.mkdir(parents=True)
    build(folder / "dist")
    (system / HOME / "commands").write_text(script([*code_blocks("Install")[:1], *code_blocks("A first pipeline")]))
    subprocess.run(["chown", "--recursive", f"{USER_ID}:{USER_ID}", system / HOME], check=True)
    enter = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-euc", ENTER, "sh"]
    walked = subprocess.run(
        [*enter, system, f"{USER_ID}:{USER_ID}", HOME],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    logs = {path.name: path.read_text() for path in folder.glob("log-*")}
    print(walked.stdout)
    assert walked.returncode == 0, logs
    assert '"added":1' in walked.stdout
