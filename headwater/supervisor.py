"""Keeps the child processes of `headwater up` running, and stops them in order.

No supervisor of the system, such as systemd, is used, because `headwater up` must run in any shell or container.
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
        start: A function that starts the process. It may raise OSError.
        grace_s: How long the process may take to stop after SIGTERM.
        healthy_after_s: A process that has run for this long resets the back-off.
        backoff: The delays between the ends of the process and its restarts.
        essential: Whether the start of `headwater up` fails when this process exits because it can't start. See
            `essential_ended_with`.
        child: The running process; None after it has ended.
        started_at: When the process was started, on the supervisor's clock.
        restart_at: When the ended process may be started again, on the supervisor's clock.
        last_status: The exit status with which the process ended last; None when it has never ended.
    """

    name: str
    start: Callable[[], Child]
    grace_s: float = 10.0
    healthy_after_s: float = 10.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.2, 30.0))
    essential: bool = True
    child: Child | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    last_status: int | None = None


class Supervisor:
    """Starts processes, restarts those that end, and stops all of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._processes: list[SupervisedProcess] = []

    def start(self, process: SupervisedProcess) -> Child:
        """Start a process, and keep it running until `stop`.

        Raises OSError when it can't be started.
        """
        child = self._start_child(process)
        self._processes.append(process)
        return child

    def restart_ended(self) -> None:
        """Check every process once, and restart the ended processes whose delay is over."""
        for process in self._processes:
            self._check(process)

    def essential_ended_with(self, status: int) -> list[str]:
        """Return the names of the essential processes whose last end had this exit status."""
        return [process.name for process in self._processes if process.essential and process.last_status == status]

    def stop(self) -> None:
        """Stop all processes, in the reverse order of their start."""
        for process in reversed(self._processes):
            if process.child is not None:
                process.child.stop(process.grace_s)
        self._processes.clear()

    def _start_child(self, process: SupervisedProcess) -> Child:
        process.child = process.start()
        process.started_at = self._clock()
        return process.child

    def _check(self, process: SupervisedProcess) -> None:
        child = process.child
        if child is None:
            if self._clock() >= process.restart_at:
                self._restart(process)
            return
        status = child.poll()
        if status is None:
            return
        if self._clock() - process.started_at > process.healthy_after_s:
            process.backoff.reset()
        process.last_status = status
        process.child = None
        self._schedule_restart(process, "child process ended; it is restarted after a delay", status=status)

    def _restart(self, process: SupervisedProcess) -> None:
        try:
            self._start_child(process)
        except OSError as error:  # too many processes or too little memory: back off as after an exit
            message = "child process can't be started; it is retried after a delay"
            self._schedule_restart(process, message, error=str(error))

    def _schedule_restart(self, process: SupervisedProcess, message: str, **details: object) -> None:
        delay_s = process.backoff.next_delay_s()
        process.restart_at = self._clock() + delay_s
        log.warning(message, child=process.name, **details, delay_s=round(delay_s, 2))
