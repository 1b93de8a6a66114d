"""Control groups of the workers' own: the kernel holds each worker, with the processes below it, to its memory limit.

On cgroups v2 a group needs a part of the tree that systemd has delegated to this service (`Delegate=yes`): all others
belong to systemd. On v1 it needs a memory hierarchy in which this process may make folders. Where there is neither,
`find_groups` returns None, and the orchestrator looks at the workers' memory itself.
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
"""The group that this process and those beside it move to: on v2 only a group without processes has groups below."""
DELEGATED = ("user.delegate", "trusted.delegate")
"""The extended attributes by which systemd marks what it has delegated."""
MOVES = 10
"""How often the processes of a group are moved: one that forks meanwhile leaves a child behind."""
BASE_FILE = "cgroup"
"""The file of the run directory with the place of the groups: the next start removes those of a killed process."""


@dataclass(frozen=True, slots=True)
class Version:
    """The files by which one version of cgroups is told a limit, and tells of kills.

    Attributes:
        limit: takes the limit in bytes.
        others: files that may be missing, and what is written to each; None stands for the limit.
        counters: has the line `oom_kill N`: the kills of processes of this group, whatever lacked the memory.
        peak: the most memory that the group has used, in bytes; older kernels have none on v2.
    """

    limit: str
    others: tuple[tuple[str, str | None], ...]
    counters: str
    peak: str


V1 = Version(
    "memory.limit_in_bytes",
    (("memory.memsw.limit_in_bytes", None), ("memory.oom_control", "0")),
    "memory.oom_control",
    "memory.max_usage_in_bytes",
)
V2 = Version("memory.max", (("memory.swap.max", "0"), ("memory.oom.group", "0")), "memory.events", "memory.peak")
REACHED = 0.99
"""Which part of its limit a group has used at least when it was the limit that lacked the memory."""


class WorkerGroup:
    """The control group of one worker."""

    def __init__(self, path: Path, version: Version) -> None:
        self.path = path
        self.processes = path / "cgroup.procs"
        self._version = version
        self._limit = 0

    def hold_to(self, limit: int) -> None:
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
        """False when the group never came near its limit: then a kill was for the memory of the whole machine."""
        try:
            return int((self.path / self._version.peak).read_text()) >= REACHED * self._limit
        except OSError:
            return True


class WorkerGroups:
    """Makes and removes the groups of one orchestrator, in the folder `base`. Used under the orchestrator's lock."""

    def __init__(self, base: Path, version: Version, prefix: str) -> None:
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
            group.hold_to(limit)
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
    """Remove a group. False while there are processes in it; their number falls by itself, since they are dying."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def find_groups(run_dir: Path, limit: int) -> WorkerGroups | None:
    """The groups of the orchestrator of a run directory, tried once; None, with a line in the log, without any.

    Also removes the groups that an orchestrator before left behind, wherever it had them.
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
            "workers have no control group of their own; their memory is looked at once a second",
            reason=error.strerror or str(error),
        )
        return None
    return groups


def note_base(run_dir: Path, groups: WorkerGroups) -> None:
    """Write down where the groups are, for the next start."""
    (run_dir / BASE_FILE).write_text(str(groups._base))


def _base_of(run_dir: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return Path((run_dir / BASE_FILE).read_text())
    return None


def _place() -> tuple[Path, Version]:
    """Where groups can be made, and of which version they are. Raises OSError with the reason when nowhere."""
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
    """The folder of this process's group: in a container its path may be the host's, and the mount be the group."""
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
    """The delegated group around this process's own one, with the memory controller for groups below it.

    Where that is the own group itself, its processes move into SUPERVISOR below it. Raises OSError.
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
    """The number behind a name in a file of the kernel's; 0 when it can't be read."""
    with contextlib.suppress(OSError):
        words = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        return int(words.get(name, 0))
    return 0
