"""Other processes. One that has ended counts as gone, though nobody has waited for it."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import psutil


class Process(NamedTuple):
    """A process and its command line, with spaces between the arguments."""

    pid: int
    command: str


def descendants(pid: int) -> list[Process]:
    """Return all processes below a process; none when it is gone."""
    found: list[Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # ZombieProcess is one
                found.append(Process(child.pid, " ".join(child.cmdline())))
    return found


def alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process and its threads so far; 0 when it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 when it is gone."""
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return 0


@contextlib.contextmanager
def suspended(pids: Iterable[int]) -> Iterator[None]:
    """Suspend processes during a block.

    They keep their connections and answer nothing.
    """
    processes = [psutil.Process(pid) for pid in pids]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
