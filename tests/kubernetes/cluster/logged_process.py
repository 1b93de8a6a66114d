"""Starts the processes of the cluster, each with a log file."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater import children

ROOT = Path(__file__).parents[3]
LOG_TAIL_CHARS = 4000
POLL_S = 0.05
STOP_WITHIN_S = 10.0


class LoggedProcess:
    """A process that ends with this one, and whose output is in a file."""

    def __init__(self, log: Path, command: Sequence[str]) -> None:
        self.log = log
        with log.open("ab") as output:
            self._child = children.spawn(command, stdout=output, stderr=output, env=os.environ, cwd=str(ROOT))

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._child.pid

    def check(self) -> None:
        """Fail with the end of the log if the process has ended."""
        status = self._child.poll()
        assert status is None, f"{self.log.stem} ended with status {status}:\n{self.tail()}"

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARS:]

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self._child.send(signal.SIGKILL)
        self._child.wait(STOP_WITHIN_S)


def wait_for(condition: Callable[[], object], processes: Sequence[LoggedProcess], within_s: float, what: str) -> None:
    """Wait until a condition is true, as long as all processes run."""
    deadline = time.monotonic() + within_s
    while not condition():
        for process in processes:
            process.check()
        tails = "\n".join(process.tail() for process in processes if time.monotonic() > deadline)
        assert time.monotonic() <= deadline, f"{what} did not come true within {within_s:g} s.\n{tails}"
        time.sleep(POLL_S)
