"""Runs a command in namespaces of its own.

`python -m tests.kubernetes.cluster.enclosure COMMAND...` gives the command a network that has no interface but
loopback, and control groups of its own. When the command ends, however it ends, the kernel kills all processes that it
started, and its mounts and networks disappear with them. Then this program removes the control groups and the folder
that the variable HEADWATER_TEST_ENCLOSURE names. What a killed enclosure left is removed by the next one.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tests.kubernetes.cluster.control_groups import ControlGroups, own_groups

VARIABLE = "HEADWATER_TEST_ENCLOSURE"
PREFIX = "headwater-tests-"
_MODULE = "tests.kubernetes.cluster.enclosure"
_OUTSIDE = "outside-network"
_NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_OWN_NETWORK = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def folder() -> Path | None:
    """Return the folder of the enclosure in which this process runs; None outside of one."""
    path = os.environ.get(VARIABLE)
    return Path(path) if path else None


def outside(command: Sequence[str]) -> list[str]:
    """Return a command line that runs `command` in the network of the machine."""
    enclosure = folder()
    return [*(["nsenter", f"--net={enclosure / _OUTSIDE}"] if enclosure else []), *command]


def run(command: Sequence[str]) -> int:
    """Run a command in a new enclosure, and return its exit status."""
    remove_abandoned()
    own = Path(tempfile.mkdtemp(prefix=PREFIX))
    with (own / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        groups = ControlGroups.create(own.name)
        inside = [sys.executable, "-m", _MODULE, "--inside", str(own), *command]
        try:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *groups.command([*_NAMESPACES, *inside])],
                env=os.environ | {VARIABLE: str(own)},
            )
            _leave_interrupts_to_the_command()
            signal.signal(signal.SIGTERM, lambda *_: process.kill())
            return process.wait()
        finally:
            groups.remove()
            shutil.rmtree(own)


def remove_abandoned() -> None:
    """Remove the control groups and folders of enclosures that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lock"):
        with old.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            ControlGroups([group / old.parent.name for group in own_groups()]).remove()
            shutil.rmtree(old.parent)


def _run_inside(own: Path, command: Sequence[str]) -> int:
    """Run the command as the first process of the namespaces, which also reaps orphans."""
    network = own / _OUTSIDE
    network.touch()
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", str(network)], check=True)
    process = subprocess.Popen([*_OWN_NETWORK, *command])
    _leave_interrupts_to_the_command()
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            return os.waitstatus_to_exitcode(status)


def _leave_interrupts_to_the_command() -> None:
    """Ignore Ctrl-C, which the terminal sends to the command too."""

    def ignore(_number: int, _frame: FrameType | None) -> None:
        pass

    signal.signal(signal.SIGINT, ignore)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        sys.exit(_run_inside(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(run(sys.argv[1:]))
