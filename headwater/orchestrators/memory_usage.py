"""Measures the memory of workers, and reads the kernel's counter of out-of-memory kills (cgroups v2 and v1)."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headwater.orchestrators.cgroups import MOUNT, PROC, V1, V2, own_groups, read_counter

PAGE_BYTES = 4096
RECENT_S = 2.0
"""How long after an increase of the kernel's counter the end of a process is attributed to it.

A killed process ends late when it has much memory to free.
"""


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes.

    A process that has ended or can't be read counts as 0.
    """
    total, todo = 0, [pid]
    while todo:
        one = PROC / str(todo.pop())
        with suppress(OSError):
            total += int((one / "statm").read_text().split()[1]) * PAGE_BYTES
            for task in (one / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return total


class OomKillCounter:
    """Watches the kernel's oom_kill counter of a worker's control group, or of this process's own group.

    Args:
        clock: Returns monotonic seconds.
        count: Reads the counter.
    """

    def __init__(self, clock: Callable[[], float], count: Callable[[], int]) -> None:
        self._clock = clock
        self._count = count
        self._seen = count()
        self._last_at = float("-inf")
        self._is_unattributed = False

    def poll(self) -> None:
        """Read the counter. Call this every second. A counter that can't be read counts as no kills."""
        count = self._count()
        if count > self._seen:
            self._seen, self._last_at, self._is_unattributed = count, self._clock(), True

    @property
    def is_recent(self) -> bool:
        """Whether the counter rose within the last RECENT_S seconds: a process that ends now was probably killed."""
        return self._clock() - self._last_at <= RECENT_S

    def take_survived_kill(self) -> bool:
        """Return True once per kill that the watched process has survived.

        The kernel then killed another process of its group.
        """
        is_survived = self._is_unattributed and not self.is_recent
        self._is_unattributed = self._is_unattributed and not is_survived
        return is_survived


def kills_in_own_group() -> Callable[[], int]:
    """Return a function that counts the out-of-memory kills in the control group of this process and its children."""
    counters = [*_counters()]
    return lambda: sum(read_counter(path, "oom_kill") for path in counters)


def _counters() -> Iterable[Path]:
    """Yield the files that may hold the counter."""
    for controllers, path in own_groups():
        if not controllers:
            yield MOUNT / path / V2.counters
        elif "memory" in controllers.split(","):
            yield MOUNT / "memory" / path / V1.counters
