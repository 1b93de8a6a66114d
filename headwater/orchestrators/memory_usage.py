"""Measures the memory of workers, and detects out-of-memory kills by the kernel.

The kernel's counter `oom_kill` exists in cgroups v2 and v1.
"""

import resource
from collections.abc import Callable
from contextlib import suppress

from headwater.orchestrators.cgroups import PROC, own_memory_cgroups, read_counter

RECENT_S = 2.0
"""How long after an increase of the kernel's counter the end of a process counts as an out-of-memory kill.

A killed process ends late when it has much memory to free.
"""


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes.

    A process that has ended or can't be read counts as 0.
    """
    pages, pids = 0, [pid]
    while pids:
        process = PROC / str(pids.pop())
        with suppress(OSError):
            pages += int((process / "statm").read_text().split()[1])
            for task in (process / "task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return pages * resource.getpagesize()


class OomKillDetector:
    """Watches the kernel's counter `oom_kill` of a control group.

    The control group is the worker's own, or this process's when workers have none.

    Args:
        clock: Returns monotonic seconds.
        read_count: Reads the counter. Returns 0 when it can't be read.
    """

    def __init__(self, clock: Callable[[], float], read_count: Callable[[], int]) -> None:
        self._clock = clock
        self._read_count = read_count
        self._last_count = read_count()
        self._increased_at = float("-inf")
        self._victim_is_unknown = False

    def poll(self) -> None:
        """Read the counter. Call this every second."""
        count = self._read_count()
        if count > self._last_count:
            self._last_count, self._increased_at, self._victim_is_unknown = count, self._clock(), True

    @property
    def is_recent(self) -> bool:
        """Whether the counter rose within the last RECENT_S seconds.

        Then a process of the cgroup that ends now was probably killed by the kernel.
        """
        return self._clock() - self._increased_at <= RECENT_S

    def take_survived_kill(self) -> bool:
        """Return True once per kill that the watched worker has survived.

        The kernel has then killed another process of the worker's cgroup. The worker has survived when RECENT_S seconds
        have passed, since the orchestrator drops the detector of a worker that ends.
        """
        is_survived = self._victim_is_unknown and not self.is_recent
        self._victim_is_unknown = self._victim_is_unknown and not is_survived
        return is_survived


def own_cgroup_counter() -> Callable[[], int]:
    """Return a function that reads the counter of this process's own control group.

    Unless workers have control groups, this cgroup contains the workers too.
    """
    files = [folder / version.counters_file for folder, version in own_memory_cgroups()]
    return lambda: sum(read_counter(file, "oom_kill") for file in files)
