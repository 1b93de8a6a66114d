"""A control group for each worker, which limits its memory with its child processes.

On cgroups v2, the groups must be in a part of the tree that systemd has delegated to this service (`Delegate=yes`),
since systemd manages all other parts. On v1, they need a memory hierarchy in which this process may create directories.
Without either, `find_groups` returns None, and the orchestrator measures the memory of the workers.
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
"""The group to which the service's own processes move. On v2, a group with processes can't have child groups."""
DELEGATED = ("user.delegate", "trusted.delegate")
"""The extended attributes by which systemd marks a delegated group."""
MAX_MOVE_ATTEMPTS = 10
"""How often the move is repeated. A process that forks during a move leaves its child behind."""
BASE_FILE = "cgroup"
"""The file in the run directory with the path of the groups.

With it, the next start can remove groups that a killed process has left behind.
"""


@dataclass(frozen=True, slots=True)
class CgroupVersion:
    """The files of a control group in one version of cgroups.

    Attributes:
        limit: The file for the limit in bytes.
        others: Files that may be missing, and the text to write to each; None stands for the limit.
        counters: The file with the line `oom_kill N`, where N counts the out-of-memory kills in the group.
        peak: The file with the peak memory of the group in bytes; on v2, older kernels do not have it.
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
REACHED_RATIO = 0.99
"""A group whose peak is at least this fraction of its limit counts as having reached the limit."""


class WorkerGroup:
    """The control group of one worker."""

    def __init__(self, path: Path, version: CgroupVersion) -> None:
        self.path = path
        self.processes = path / "cgroup.procs"
        self._version = version
        self._limit = 0

    def set_limits(self, limit: int) -> None:
        """Set the limit in bytes, disable swap, and let the kernel kill one process at a time.

        Raises OSError.
        """
        self._limit = limit
        (self.path / self._version.limit).write_text(str(limit))
        for name, value in self._version.others:
            with contextlib.suppress(OSError):
                (self.path / name).write_text(str(limit) if value is None else value)

    def kills(self) -> int:
        """Return how many processes of this group the kernel has killed for memory."""
        return read_counter(self.path / self._version.counters, "oom_kill")

    def reached_limit(self) -> bool:
        """Whether the peak is near the limit.

        Otherwise a kill was due to the memory of the whole machine.
        """
        try:
            return int((self.path / self._version.peak).read_text()) >= REACHED_RATIO * self._limit
        except OSError:
            return True


class WorkerGroups:
    """Creates and removes the groups of one orchestrator.

    All methods are called under the orchestrator's lock.

    Attributes:
        base: The folder of the groups.
    """

    def __init__(self, base: Path, version: CgroupVersion, prefix: str) -> None:
        self.base = base
        self._version = version
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._discarded: list[Path] = list(base.glob(f"{prefix}*"))
        self.sweep()

    def create(self, limit: int) -> WorkerGroup:
        """Create a group with a limit in bytes. When this raises OSError, no group is left behind."""
        path = self.base / f"{self._prefix}{os.getpid()}-{next(self._numbers)}"
        path.mkdir()
        group = WorkerGroup(path, self._version)
        try:
            group.set_limits(limit)
        except OSError:
            self.discard(group)
            raise
        return group

    def discard(self, group: WorkerGroup) -> None:
        """Remove a group, at once or when the processes in it have ended."""
        self._discarded.append(group.path)
        self.sweep()

    def sweep(self) -> bool:
        """Remove the discarded groups. Returns False while some of them still have processes."""
        self._discarded = [path for path in self._discarded if not _remove(path)]
        return not self._discarded


def _remove(path: Path) -> bool:
    """Remove a group. Returns False while it still has processes, which are ending."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def find_groups(run_dir: Path, limit: int) -> WorkerGroups | None:
    """Return the control groups of the orchestrator with this run directory.

    A test group is created first. When that fails, the result is None and the reason is logged. This also removes the
    groups that an earlier orchestrator with this run directory has left.
    """
    prefix = f"headwater-{hashlib.sha256(os.fsencode(run_dir.absolute())).hexdigest()[:8]}-"
    before = _base_of(run_dir)
    if before is not None:
        for path in before.glob(f"{prefix}*"):
            _remove(path)
    try:
        groups = WorkerGroups(*_find_base(), prefix)
        groups.discard(groups.create(limit))
    except OSError as error:
        log.info(
            "workers have no control groups; their memory is measured once a second",
            reason=error.strerror or str(error),
        )
        return None
    return groups


def write_base_file(run_dir: Path, groups: WorkerGroups) -> None:
    """Store the path of the groups for the next start."""
    (run_dir / BASE_FILE).write_text(str(groups.base))


def _base_of(run_dir: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return Path((run_dir / BASE_FILE).read_text())
    return None


def _find_base() -> tuple[Path, CgroupVersion]:
    """Return the folder in which groups can be created, and the version of cgroups.

    Raises OSError with the reason when there is none.
    """
    for controllers, path in own_groups():
        if "memory" in controllers.split(","):
            return _own_folder(MOUNT / "memory", path), V1
    for controllers, path in own_groups():
        if not controllers:
            return prepare_delegated_folder(_own_folder(MOUNT, path)), V2
    raise FileNotFoundError("there is no memory controller")


def own_groups(proc: Path = PROC) -> Iterator[tuple[str, str]]:
    """Yield the controllers and the path of each group of this process.

    On v2, the controllers are empty.
    """
    for line in (proc / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers, path.lstrip("/")


def _own_folder(mount: Path, path: str) -> Path:
    """Return the folder of this process's group.

    In a container, the mount itself may be the group.
    """
    own = str(os.getpid())
    for folder in (mount / path, mount):
        with contextlib.suppress(OSError):
            if own in (folder / "cgroup.procs").read_text().split():
                return folder
    raise FileNotFoundError(f"{mount} does not show the control group of this process")


def is_delegated(folder: Path) -> bool:
    """Whether systemd has delegated this group."""
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def prepare_delegated_folder(own: Path, is_delegated: Callable[[Path], bool] = is_delegated) -> Path:
    """Return the delegated group that contains this process.

    The memory controller is enabled for its child groups. When it is this process's own group, the processes in it are
    moved into its child group SUPERVISOR. Raises OSError.
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
    for _ in range(MAX_MOVE_ATTEMPTS):
        pids = (base / "cgroup.procs").read_text().split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (to / "cgroup.procs").write_text(pid)
    raise BlockingIOError(f"processes keep appearing in {base}")


def read_counter(path: Path, name: str) -> int:
    """Return the number after a name in a file of the kernel; 0 when it can't be read."""
    with contextlib.suppress(OSError):
        words = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        return int(words.get(name, 0))
    return 0
