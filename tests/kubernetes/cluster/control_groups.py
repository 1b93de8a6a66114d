"""Creates and removes control groups in all hierarchies of version 1."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
REMOVED_WITHIN_S = 20.0
POLL_S = 0.05

_ENTER = 'until [ "$1" = -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'


def own_groups() -> list[Path]:
    """Return the control group of this process in each hierarchy of version 1."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    named = (line.split(":", 2)[1:] for line in lines)
    return [MOUNT / name.removeprefix("name=") / path.lstrip("/") for name, path in named if name]


@dataclass(frozen=True)
class ControlGroups:
    """Control groups of one name, one in each hierarchy."""

    folders: Sequence[Path]

    @classmethod
    def create(cls, name: str) -> "ControlGroups":
        """Create a group inside each of this process's own groups."""
        folders = [parent / name for parent in own_groups()]
        for folder in folders:
            folder.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):  # the kernel creates a group without CPUs
                if (folder / setting).exists():
                    (folder / setting).write_text((folder.parent / setting).read_text())
        return cls(folders)

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command line that enters the groups and then executes `command`."""
        procs = [str(folder / "cgroup.procs") for folder in self.folders]
        return ["/bin/sh", "-c", _ENTER, "sh", *procs, "--", *command]

    def remove(self) -> None:
        """Remove the groups and all groups inside them, when their last processes have ended."""
        deadline = time.monotonic() + REMOVED_WITHIN_S
        for folder in self.folders:
            while folder.exists():
                remove_empty(folder)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"The control group {folder} still has processes.")
                time.sleep(POLL_S if folder.exists() else 0)


def remove_empty(folder: Path) -> None:
    """Remove the groups without processes in a tree of groups."""
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            Path(path).rmdir()
