"""Control groups, which limit the memory of workers and their child processes.

On cgroups v2, the cgroups must be in a part of the tree that systemd has delegated to this service (`Delegate=yes`),
since systemd manages all other parts. On v1, there must be a memory hierarchy in which this process may create
directories. Where neither is the case, `find_cgroups` returns None, and the orchestrator measures the memory of the
workers.
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
"""The cgroup to which the service's own processes move.

On v2, a cgroup with processes can't enable the memory controller for its child cgroups.
"""
DELEGATED = ("user.delegate", "trusted.delegate")
"""The extended attributes by which systemd marks a delegated cgroup."""
MAX_MOVE_ATTEMPTS = 10
"""How often processes are moved to a cgroup at most. A process that forks while it is moved leaves its child behind."""
BASE_FILE = "cgroup"
"""The file in the run directory with the path of the cgroups.

With it, the next start can remove cgroups that a killed process has left behind.
"""


@dataclass(frozen=True, slots=True)
class CgroupVersion:
    """The files of a control group in one version of cgroups.

    Attributes:
        limit_file: The file for the limit in bytes.
        optional_files: Files that may be missing, and the text to write to each; None stands for the limit.
        counters_file: The file with the line `oom_kill N`, where N counts the out-of-memory kills in the cgroup.
        peak_file: The file with the peak memory of the cgroup in bytes; on v2, older kernels do not have it.
    """

    limit_file: str
    optional_files: tuple[tuple[str, str | None], ...]
    counters_file: str
    peak_file: str


V1 = CgroupVersion(
    "memory.limit_in_bytes",
    (("memory.memsw.limit_in_bytes", None), ("memory.oom_control", "0")),
    "memory.oom_control",
    "memory.max_usage_in_bytes",
)
V2 = CgroupVersion("memory.max", (("memory.swap.max", "0"), ("memory.oom.group", "0")), "memory.events", "memory.peak")
REACHED_RATIO = 0.99
"""A cgroup whose peak is at least this fraction of its limit counts as having reached the limit."""


class WorkerCgroup:
    """The control group of one worker.

    Attributes:
        path: The folder of the cgroup.
        procs_file: The file to which a process writes its id to enter the cgroup.
    """

    def __init__(self, path: Path, version: CgroupVersion) -> None:
        self.path = path
        self.procs_file = path / "cgroup.procs"
        self._version = version
        self._limit = 0

    def set_limits(self, limit: int) -> None:
        """Set the limit in bytes, disable swap, and let the kernel kill one process at a time.

        Raises OSError.
        """
        self._limit = limit
        (self.path / self._version.limit_file).write_text(str(limit))
        for name, value in self._version.optional_files:
            with contextlib.suppress(OSError):
                (self.path / name).write_text(str(limit) if value is None else value)

    def kills(self) -> int:
        """Return how many processes of this cgroup the kernel has killed for memory."""
        return read_counter(self.path / self._version.counters_file, "oom_kill")

    def reached_limit(self) -> bool:
        """Whether the peak is near the limit. True when the peak is unknown.

        When the cgroup has not reached its limit, a kill was due to the memory of the whole machine.
        """
        try:
            return int((self.path / self._version.peak_file).read_text()) >= REACHED_RATIO * self._limit
        except OSError:
            return True


class WorkerCgroups:
    """Creates and removes the cgroups of one orchestrator.

    All methods are called under the orchestrator's lock. Cgroups that an earlier process has left in the folder
    are removed.

    Attributes:
        base: The folder in which the cgroups are created.

    Args:
        version: The version of cgroups.
        prefix: The beginning of the names of the cgroups, which other orchestrators do not use.
    """

    def __init__(self, base: Path, version: CgroupVersion, prefix: str) -> None:
        self.base = base
        self._version = version
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._discarded: list[Path] = list(base.glob(f"{prefix}*"))
        self.sweep()

    def create(self, limit: int) -> WorkerCgroup:
        """Create a cgroup with a limit in bytes.

        When this raises OSError, no cgroup is left behind.
        """
        path = self.base / f"{self._prefix}{os.getpid()}-{next(self._numbers)}"
        path.mkdir()
        cgroup = WorkerCgroup(path, self._version)
        try:
            cgroup.set_limits(limit)
        except OSError:
            self.discard(cgroup)
            raise
        return cgroup

    def discard(self, cgroup: WorkerCgroup) -> None:
        """Remove a cgroup, at once or when the processes in it have ended."""
        self._discarded.append(cgroup.path)
        self.sweep()

    def sweep(self) -> bool:
        """Remove the discarded cgroups. Returns False while some of them still have processes."""
        self._discarded = [path for path in self._discarded if not _remove(path)]
        return not self._discarded


def _remove(path: Path) -> bool:
    """Remove a cgroup. Returns False while it still has processes, which are ending."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def find_cgroups(run_dir: Path, limit: int) -> WorkerCgroups | None:
    """Return the control groups of the orchestrator with this run directory.

    The cgroups that an earlier orchestrator with this run directory has left are removed. Then a test cgroup with this
    limit in bytes is created. When that fails, the result is None and the reason is logged.
    """
    prefix = f"headwater-{hashlib.sha256(os.fsencode(run_dir.absolute())).hexdigest()[:8]}-"
    previous_base = _read_base_file(run_dir)
    if previous_base is not None:
        for path in previous_base.glob(f"{prefix}*"):
            _remove(path)
    try:
        cgroups = WorkerCgroups(*_find_base(), prefix)
        cgroups.discard(cgroups.create(limit))
    except OSError as error:
        log.info(
            "workers have no control groups; their memory is measured once a second",
            reason=error.strerror or str(error),
        )
        return None
    return cgroups


def write_base_file(run_dir: Path, cgroups: WorkerCgroups) -> None:
    """Store the path of the cgroups for the next start."""
    (run_dir / BASE_FILE).write_text(str(cgroups.base))


def _read_base_file(run_dir: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return Path((run_dir / BASE_FILE).read_text())
    return None


def _find_base() -> tuple[Path, CgroupVersion]:
    """Return the folder in which cgroups can be created, and the version of cgroups.

    Raises OSError with the reason when there is no such folder.
    """
    own_cgroup = next(own_memory_cgroups(), None)
    if own_cgroup is None:
        raise FileNotFoundError(f"{MOUNT} shows no memory control group of this process")
    folder, version = own_cgroup
    return (folder if version is V1 else prepare_delegated_folder(folder)), version


def own_memory_cgroups() -> Iterator[tuple[Path, CgroupVersion]]:
    """Yield the folders of this process's cgroups that can limit memory: v1 first, then v2."""
    cgroups = [*own_cgroups()]
    v1_paths = [path for controllers, path in cgroups if "memory" in controllers.split(",")]
    v2_paths = [path for controllers, path in cgroups if not controllers]
    for mount, paths, version in ((MOUNT / "memory", v1_paths, V1), (MOUNT, v2_paths, V2)):
        for path in paths:
            if (folder := _own_folder(mount, path)) is not None:
                yield folder, version


def own_cgroups(proc: Path = PROC) -> Iterator[tuple[str, str]]:
    """Yield the controllers and the path of each cgroup of this process.

    On v2, the controllers are empty.
    """
    for line in (proc / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers, path.lstrip("/")


def _own_folder(mount: Path, path: str) -> Path | None:
    """Return the folder of this process's cgroup; None when the mount does not show the cgroup.

    In a container without a cgroup namespace, `path` is the path on the host, and the mount itself is the cgroup.
    """
    own = str(os.getpid())
    for folder in (mount / path, mount):
        with contextlib.suppress(OSError):
            if own in (folder / "cgroup.procs").read_text().split():
                return folder
    return None


def is_delegated_by_systemd(folder: Path) -> bool:
    """Whether systemd has delegated this cgroup to its service."""
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def prepare_delegated_folder(own: Path, is_delegated: Callable[[Path], bool] = is_delegated_by_systemd) -> Path:
    """Prepare the delegated cgroup that contains this process, and return its folder.

    The memory controller is enabled for the child cgroups. When the delegated cgroup is this process's own cgroup, its
    processes are moved into the child cgroup SUPERVISOR. Raises OSError.

    Args:
        own: The folder of this process's own cgroup.
        is_delegated: Returns whether systemd has delegated a cgroup.
    """
    # The parent comes first: an earlier start may have moved this process into the child cgroup SUPERVISOR.
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
    """Return the number after a name in a file of the kernel.

    Returns 0 when the file can't be read or lacks the name.
    """
    with contextlib.suppress(OSError):
        words = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        return int(words.get(name, 0))
    return 0
