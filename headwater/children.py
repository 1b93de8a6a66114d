"""Child processes: start one that dies with its parent, wait, stop, back off, keep several running.

A child gets SIGKILL from the kernel when the *thread* that forked it ends (prctl PR_SET_PDEATHSIG). So all children
of a process are forked by one thread that never ends, and a small wrapper arms the signal before it becomes the
program: `preexec_fn` is not safe in a process with threads.
"""

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

import structlog

log = structlog.get_logger(__name__)

_PR_SET_PDEATHSIG = 1
# The parent may die between fork and prctl: then no signal comes, and the check of getppid ends the wrapper.
_WRAPPER = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): os._exit(1)
if sys.argv[2]:
    with open(sys.argv[2], "w") as processes: processes.write("0")
os.execv(sys.argv[3], sys.argv[3:])
"""

Stream = int | IO[bytes] | None

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
             "LD_PRELOAD", "MALLOC_*", "PYTHON*", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
             "CURL_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "OPENSSL_CONF")  # fmt: skip
"""The variables that every child gets. `*` stands for any rest of a name. None of them holds a secret."""


def inherited(*more: str) -> dict[str, str]:
    """The variables of this process that are in INHERITED or in `more`: a child never gets all of them."""
    allowed = (*INHERITED, *more)
    return {name: value for name, value in os.environ.items() if any(fnmatchcase(name, each) for each in allowed)}


class Child:
    """A started process. Thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.started_at = time.time()

    def poll(self) -> int | None:
        """None while it runs, else the exit status; −N means killed by signal N."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; None when it still runs after `timeout_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; no error when the process is gone."""
        self._process.send_signal(number)

    def stop(self, grace_s: float) -> int:
        """SIGTERM, then SIGKILL when it still runs after `grace_s`. Returns the exit status."""
        self.send(signal.SIGTERM)
        status = self.wait(grace_s)
        if status is None:
            self.send(signal.SIGKILL)
            status = self._process.wait()
        return status


class _Spawner(threading.Thread):
    """The thread that forks. It must never end before the process does."""

    def __init__(self) -> None:
        super().__init__(name="spawner", daemon=True)
        self._requests: queue.SimpleQueue[tuple[Callable[[], Child], Future[Child]]] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            make, future = self._requests.get()
            try:
                future.set_result(make())
            except Exception as error:  # noqa: BLE001  # it is the caller's; the other children would end with this thread
                future.set_exception(error)

    def submit(self, make: Callable[[], Child]) -> Child:
        future: Future[Child] = Future()
        self._requests.put((make, future))
        return future.result()


_spawner: _Spawner | None = None
_spawner_lock = threading.Lock()


def _get_spawner() -> _Spawner:
    global _spawner
    with _spawner_lock:
        if _spawner is None:
            _spawner = _Spawner()
        return _spawner


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    pass_fds: Sequence[int] = (),
    join: Path | None = None,
) -> Child:
    """Start `argv` (argv[0] is an absolute path) in a session of its own; it dies when this process does.

    env: the child's environment; without one, `inherited()`.
    join: the file `cgroup.procs` of the control group that the child joins before it becomes the program. A child that
    can't join ends with status 1.
    Terminal signals (Ctrl-C) so reach the parent alone, which stops its children in order. Raises OSError.
    """

    def make() -> Child:
        wrapped = [sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), str(join or ""), *argv]
        return Child(
            subprocess.Popen(
                wrapped,
                env=inherited() if env is None else dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        )

    return _get_spawner().submit(make)


@dataclass(slots=True)
class Backoff:
    """Full-jitter exponential back-off: a random delay up to a doubling ceiling, in seconds."""

    first_s: float = 1.0
    ceiling_s: float = 300.0
    random: Callable[[], float] = random.random
    _failures: int = 0

    def next_s(self) -> float:
        """The delay before the next try."""
        limit = min(self.ceiling_s, self.first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 32)
        return limit * self.random()

    def reset(self) -> None:
        """Call after real progress."""
        self._failures = 0


@dataclass(slots=True)
class Service:
    """A child to keep running. start: makes it. essential: the others need it."""

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
    """Keeps services running, in the order in which they were added; stops them in the reverse order."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._services: list[Service] = []

    def add(self, service: Service) -> Child:
        """Start a service and keep it running from now on."""
        service.child = service.start()
        self._services.append(service)
        return service.child

    def tick(self) -> None:
        """Look after every service once: restart what ended and has waited long enough."""
        for service in self._services:
            self._look_after(service)

    def essential_ended_with(self, status: int) -> list[str]:
        """The names of the essential services whose last process ended with this status."""
        return [each.name for each in self._services if each.essential and each.last_status == status]

    def _look_after(self, service: Service) -> None:
        child = service.child
        if child is None:
            if self._clock() >= service.restart_at:
                self._restart(service)
            return
        status = child.poll()
        if status is None:
            return
        if time.time() - child.started_at > service.healthy_after_s:
            service.backoff.reset()
        service.last_status = status
        service.child = None
        self._put_off(service, "child ended; it is started again", status=status)

    def _restart(self, service: Service) -> None:
        try:
            service.child = service.start()
        except OSError as error:  # no process, no memory: waits like a death
            self._put_off(service, "child can't be started; it is tried again", error=str(error))

    def _put_off(self, service: Service, why: str, **details: object) -> None:
        delay_s = service.backoff.next_s()
        service.restart_at = self._clock() + delay_s
        log.warning(why, child=service.name, **details, delay_s=round(delay_s, 2))

    def stop(self) -> None:
        """Stop all services, last one first."""
        for service in reversed(self._services):
            if service.child is not None:
                service.child.stop(service.grace_s)
        self._services.clear()
