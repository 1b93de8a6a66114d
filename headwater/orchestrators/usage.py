"""How much memory workers use, and whether the kernel kills for memory (cgroups v2 and v1)."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = 4096
RECENT_S = 2.0
"""How long after a rise of the kernel's counter a process may end of it: it has much memory to give back."""
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and of all below it. 0 for one that is gone, or can't be read now."""
    total, todo = 0, [pid]
    while todo:
        one = _PROC / str(todo.pop())
        with suppress(OSError):
            total += int((one / "statm").read_text().split()[1]) * PAGE_BYTES
            for task in (one / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return total


class KernelKills:
    """Counts the kernel's kills for memory in the control group of this process, where its children are too."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counters = [path for path in _counters() if path.is_file()]
        self._seen = self._count()
        self._last_at = float("-inf")

    def look(self) -> None:
        """Read the counter; to be called every second. Without a readable one there are no kills."""
        count = self._count()
        if count > self._seen:
            self._seen, self._last_at = count, self._clock()

    @property
    def is_recent(self) -> bool:
        """True when the last look, or one shortly before it, found a kill: a process that ends now may be the one."""
        return self._clock() - self._last_at <= RECENT_S

    def _count(self) -> int:
        return sum(_kills(path) for path in self._counters)


def _counters() -> Iterable[Path]:
    """The files that may hold the counter: lines of /proc/self/cgroup are `<id>:<controllers>:<path>`."""
    for line in (_PROC / "self" / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield _CGROUPS / path.lstrip("/") / "memory.events"
        elif "memory" in controllers.split(","):
            yield _CGROUPS / "memory" / path.lstrip("/") / "memory.oom_control"


def _kills(path: Path) -> int:
    with suppress(OSError):
        words = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        return int(words.get("oom_kill", 0))
    return 0
