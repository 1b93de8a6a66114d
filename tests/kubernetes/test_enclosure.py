"""The enclosure removes all that its command started, however it ends."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from tests.kubernetes.cluster import enclosure
from tests.kubernetes.cluster.control_groups import own_groups

WITHIN_S = 30.0
ENCLOSURE = [sys.executable, "-m", "tests.kubernetes.cluster.enclosure", "sh", "-c"]
START_A_CHILD = "setsid sleep 3000 & echo $HEADWATER_TEST_ENCLOSURE; "


def start(script: str) -> tuple["subprocess.Popen[str]", str]:
    """Start a script in an enclosure.

    Return its process and the name of its folder, which it prints.
    """
    process = subprocess.Popen([*ENCLOSURE, START_A_CHILD + script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        return process, Path(output.readline().strip()).name


def left(name: str) -> list[object]:
    """Return the processes, control groups and folders that an enclosure left behind."""
    processes = [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "3000"]]
    groups = [group / name for group in own_groups() if (group / name).exists()]
    return [*processes, *groups, *Path(tempfile.gettempdir()).glob(name)]


def test_nothing_is_left_when_the_command_is_killed() -> None:
    process, name = start("kill -9 $$")
    assert process.wait(WITHIN_S) == 256 - signal.SIGKILL
    assert left(name) == []


def test_nothing_is_left_when_the_enclosure_is_terminated() -> None:
    process, name = start("sleep 2999")
    assert len(left(name)) > 1
    process.terminate()
    process.wait(WITHIN_S)
    assert left(name) == []


def test_the_next_enclosure_removes_what_a_killed_one_left() -> None:
    process, name = start("sleep 2999")
    process.kill()
    process.wait(WITHIN_S)
    enclosure.remove_abandoned()
    assert left(name) == []
