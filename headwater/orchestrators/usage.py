"""How much memory workers use, and whether the kernel kills for memory (cgroups v2 and v1)."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headwater.orchestrators.cgroups import MOUNT, PROC, V1, V2, own_groups, read_counter

PAGE_BYTES = 4096
RECENT_S = 2.0
"""How long after a rise of the kernel's counter a process may end of it: it has much memory to give back."""


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and of all below it. 0 for one that is gone, or can't be read now."""
    total, todo = 0, [pid]
    while todo:
        one = PROC / str(todo.pop())
        with suppress(OSError):
            total += int((one / "statm").read_text().split()[1]) * PAGE_BYTES
            for task in (one / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return total


class KernelKills:
    """Watches a counter of the kernel's kills for memory: of a worker's control group, or of this process's own."""

    def __init__(self, clock: Callable[[], float], count: Callable[[], int]) -> None:
        self._clock = clock
        self._count = count
        self._seen = count()
        self._last_at = float("-inf")
        self._untold = False

    def look(self) -> None:
        """Read the counter; to be called every second. Without a readable one there are no kills."""
        count = self._count()
        if count > self._seen:
            self._seen, self._last_at, self._untold = count, self._clock(), True

    @property
    def is_recent(self) -> bool:
        """True when the last look, or one shortly before it, found a kill: a process that ends now may be the one."""
        return self._clock() - self._last_at <= RECENT_S

    def were_of_others(self) -> bool:
        """True once after a kill that the watched process has outlived: it was that of another process."""
        told = self._untold and not self.is_recent
        self._untold = self._untold and not told
        return told


def kills_in_own_group() -> Callable[[], int]:
    """Counts the kernel's kills for memory in the control group of this process, where its children are too."""
    counters = [*_counters()]
    return lambda: sum(read_counter(path, "oom_kill") for path in counters)


def _counters() -> Iterable[Path]:
    """The files that may hold the counter."""
    for controllers, path in own_groups():
        if not controllers:
            yield MOUNT / path / V2.counters
        elif "memory" in controllers.split(","):
            yield MOUNT / "memory" / path / V1.counters
