"""Keeps several child processes running, and stops them in order.

A supervisor such as systemd is not used, because `headwater up` is to run in any shell or container.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from headwater.backoff import Backoff
from headwater.children import Child

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SupervisedProcess:
    """A child process that `Supervisor` keeps running.

    Attributes:
        name: The name in the log.
        start: Starts the process. May raise OSError.
        grace_s: How long the process may take to stop after SIGTERM.
        healthy_after_s: A process that has run for this long resets the back-off.
        essential: Whether the other processes can't work without it.
        restart_at: When the ended process may be started again, on the supervisor's clock.
        last_status: The exit status of the last process that ended.
    """

    name: str
    start: Callable[[], Child]
    grace_s: float = 10.0
    healthy_after_s: float = 10.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.2, 30.0))
    essential: bool = True
    child: Child | None = None
    restart_at: float = 0.0
    last_status: int | None = None


class Supervisor:
    """Starts processes, restarts them, and stops them.

    `stop` stops the processes in the reverse order of their start.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._processes: list[SupervisedProcess] = []

    def start(self, process: SupervisedProcess) -> Child:
        """Start a process and keep it running from now on."""
        process.child = process.start()
        self._processes.append(process)
        return process.child

    def restart_ended(self) -> None:
        """Check every process once, and restart those that have ended and whose delay is over."""
        for process in self._processes:
            self._check(process)

    def essential_ended_with(self, status: int) -> list[str]:
        """Return the names of the essential processes that last ended with this exit status."""
        return [each.name for each in self._processes if each.essential and each.last_status == status]

    def _check(self, process: SupervisedProcess) -> None:
        child = process.child
        if child is None:
            if self._clock() >= process.restart_at:
                self._restart(process)
            return
        status = child.poll()
        if status is None:
            return
        if time.time() - child.started_at > process.healthy_after_s:
            process.backoff.reset()
        process.last_status = status
        process.child = None
        self._schedule_restart(process, "child process ended; it is restarted after a delay", status=status)

    def _restart(self, process: SupervisedProcess) -> None:
        try:
            process.child = process.start()
        except OSError as error:  # too many processes or too little memory: back off as after an exit
            message = "child process can't be started; it is retried after a delay"
            self._schedule_restart(process, message, error=str(error))

    def _schedule_restart(self, process: SupervisedProcess, message: str, **details: object) -> None:
        delay_s = process.backoff.next_delay_s()
        process.restart_at = self._clock() + delay_s
        log.warning(message, child=process.name, **details, delay_s=round(delay_s, 2))

    def stop(self) -> None:
        """Stop all processes, the last one first."""
        for process in reversed(self._processes):
            if process.child is not None:
                process.child.stop(process.grace_s)
        self._processes.clear()
