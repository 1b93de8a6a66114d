"""A control group for each worker, in which the kernel limits the memory of the worker and its child processes.

On cgroups v2, groups need a part of the tree that systemd has delegated to this service (`Delegate=yes`); all other
parts belong to systemd. On v1, they need a memory hierarchy in which this process may make folders. Where there is
neither, `find_groups` returns None, and the orchestrator measures the workers' memory itself.
"""

import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

MOUNT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
SUPERVISOR = "supervisor"
"""The group that the service's own processes move to: on v2, a group that holds processes can't have child groups."""
DELEGATED = ("user.delegate", "trusted.delegate")
"""The extended attributes by which systemd marks what it has delegated."""
MOVES = 10
"""How often the processes of a group are moved: a process that forks during a move leaves its child behind."""
BASE_FILE = "cgroup"
"""The file of the run directory with the path of the groups, so that the next start removes those that a kill left."""


@dataclass(frozen=True, slots=True)
class CgroupVersion:
    """The files of a control group in one version of cgroups.

    Attributes:
        limit: The file that takes the limit in bytes.
        others: Files that may be missing, and the text to write to each; None means the limit.
        counters: The file with the line `oom_kill N`, which counts kills of processes of this group for memory.
        peak: The file with the most memory that the group has used, in bytes; older kernels have none on v2.
    """

    limit: str
    others: tuple[tuple[str, str | None], ...]
    counters: str
    peak: str


V1 = CgroupVersion(
    "memory.limit_in_bytes",
    (("memory.memsw.limit_in_bytes", None), ("memory.oom_control", "0")),
    "memory.oom_control",
    "memory.max_usage_in_bytes",
)
V2 = CgroupVersion("memory.max", (("memory.swap.max", "0"), ("memory.oom.group", "0")), "memory.events", "memory.peak")
REACHED = 0.99
"""A group whose peak is at least this part of its limit counts as having reached the limit."""


class WorkerGroup:
    """The control group of one worker."""

    def __init__(self, path: Path, version: CgroupVersion) -> None:
        self.path = path
        self.processes = path / "cgroup.procs"
        self._version = version
        self._limit = 0

    def set_limits(self, limit: int) -> None:
        """Set the limit in bytes, without swap, and let the kernel kill one process at a time. Raises OSError."""
        self._limit = limit
        (self.path / self._version.limit).write_text(str(limit))
        for name, value in self._version.others:
            with contextlib.suppress(OSError):
                (self.path / name).write_text(str(limit) if value is None else value)

    def kills(self) -> int:
        """How many processes of this group the kernel has killed for memory."""
        return read_counter(self.path / self._version.counters, "oom_kill")

    def reached_limit(self) -> bool:
        """Whether the peak is near the limit; otherwise a kill was for the memory of the whole machine."""
        try:
            return int((self.path / self._version.peak).read_text()) >= REACHED * self._limit
        except OSError:
            return True


class WorkerGroups:
    """Makes and removes the groups of one orchestrator, in the folder `base`. Used under the orchestrator's lock."""

    def __init__(self, base: Path, version: CgroupVersion, prefix: str) -> None:
        self._base = base
        self._version = version
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._left: list[Path] = list(base.glob(f"{prefix}*"))
        self.sweep()

    def make(self, limit: int) -> WorkerGroup:
        """A new group with a limit in bytes. Raises OSError; nothing is left behind then."""
        path = self._base / f"{self._prefix}{os.getpid()}-{next(self._numbers)}"
        path.mkdir()
        group = WorkerGroup(path, self._version)
        try:
            group.set_limits(limit)
        except OSError:
            self.discard(group)
            raise
        return group

    def discard(self, group: WorkerGroup) -> None:
        """Remove a group, at once or as soon as the processes in it have ended."""
        self._left.append(group.path)
        self.sweep()

    def sweep(self) -> bool:
        """Remove the groups that were discarded. False while some still have processes."""
        self._left = [path for path in self._left if not _remove(path)]
        return not self._left


def _remove(path: Path) -> bool:
    """Remove a group. False while it still has processes, which are ending."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def find_groups(run_dir: Path, limit: int) -> WorkerGroups | None:
    """The groups of a run directory's orchestrator, after a test of one; None, with a log line, when none can be made.

    This also removes the groups that an earlier orchestrator of the run directory has left.
    """
    prefix = f"headwater-{hashlib.sha256(os.fsencode(run_dir.absolute())).hexdigest()[:8]}-"
    before = _base_of(run_dir)
    if before is not None:
        for path in before.glob(f"{prefix}*"):
            _remove(path)
    try:
        groups = WorkerGroups(*_place(), prefix)
        groups.discard(groups.make(limit))
    except OSError as error:
        log.info(
            "workers have no control group of their own; their memory is measured once a second",
            reason=error.strerror or str(error),
        )
        return None
    return groups


def write_base_file(run_dir: Path, groups: WorkerGroups) -> None:
    """Store the path of the groups for the next start."""
    (run_dir / BASE_FILE).write_text(str(groups._base))


def _base_of(run_dir: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return Path((run_dir / BASE_FILE).read_text())
    return None


def _place() -> tuple[Path, CgroupVersion]:
    """The folder in which groups can be made, and their version. Raises OSError with the reason when there is none."""
    for controllers, path in own_groups():
        if "memory" in controllers.split(","):
            return _own_folder(MOUNT / "memory", path), V1
    for controllers, path in own_groups():
        if not controllers:
            return delegated_folder(_own_folder(MOUNT, path)), V2
    raise FileNotFoundError("there is no memory controller")


def own_groups(proc: Path = PROC) -> Iterator[tuple[str, str]]:
    """The controllers and the path of each group of this process; v2 names no controllers."""
    for line in (proc / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers, path.lstrip("/")


def _own_folder(mount: Path, path: str) -> Path:
    """The folder of this process's group. In a container, the mount itself may be that group."""
    own = str(os.getpid())
    for folder in (mount / path, mount):
        with contextlib.suppress(OSError):
            if own in (folder / "cgroup.procs").read_text().split():
                return folder
    raise FileNotFoundError(f"{mount} does not show the control group of this process")


def is_delegated(folder: Path) -> bool:
    """True when systemd has delegated this group."""
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def delegated_folder(own: Path, is_delegated: Callable[[Path], bool] = is_delegated) -> Path:
    """The delegated group that contains this process, with the memory controller enabled for its child groups.

    When that is this process's own group, the processes in it move into its child group SUPERVISOR. Raises OSError.
    """
    base = next((folder for folder in (own.parent, own) if is_delegated(folder)), None)
    if base is None:
        raise PermissionError(f"systemd has not delegated {own} (`Delegate=yes`)")
    if base == own:
        _move_processes(base, base / SUPERVISOR)
    (base / "cgroup.subtree_control").write_text("+memory")
    return base


def _move_processes(base: Path, to: Path) -> None:
    to.mkdir(exist_ok=True)
    for _ in range(MOVES):
        pids = (base / "cgroup.procs").read_text().split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (to / "cgroup.procs").write_text(pid)
    raise BlockingIOError(f"processes keep appearing in {base}")


def read_counter(path: Path, name: str) -> int:
    """The number after a name in a file of the kernel; 0 when it can't be read."""
    with contextlib.suppress(OSError):
        words = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        return int(words.get(name, 0))
    return 0
