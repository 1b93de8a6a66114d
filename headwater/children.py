"""Starts child processes that end with their parent.

The kernel sends a child SIGKILL when the *thread* that forked it ends (prctl PR_SET_PDEATHSIG). Therefore one thread
that never ends forks all children of a process. A small wrapper program sets the signal before it executes the child's
program, because `preexec_fn` is not safe in a process with threads.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
MAX_NICENESS = 19
# When the parent ends between fork and prctl, no signal is sent; the check of getppid then ends the wrapper.
_WRAPPER = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): os._exit(1)
if sys.argv[2]:
    with open(sys.argv[2], "w") as cgroup_procs: cgroup_procs.write("0")
os.execv(sys.argv[3], sys.argv[3:])
"""

StdioTarget = int | IO[bytes] | None

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
             "LD_PRELOAD", "MALLOC_*", "PYTHON*", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
             "CURL_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "OPENSSL_CONF")  # fmt: skip
"""The environment variables that a child gets by default, as patterns of `fnmatch`. None of them holds a secret."""


def is_inherited(name: str) -> bool:
    """Return whether an environment variable matches INHERITED."""
    return any(fnmatchcase(name, pattern) for pattern in INHERITED)


def inherited_environment(*extra_names: str) -> dict[str, str]:
    """Return the environment variables that match INHERITED or `extra_names`.

    A child never gets all variables, because some of them hold secrets.
    """
    patterns = (*INHERITED, *extra_names)
    return {
        name: value for name, value in os.environ.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def lower_priority(increment: int) -> None:
    """Lower the CPU priority of this process and its session by an increment of the niceness."""
    set_niceness(os.getpid(), os.getpriority(os.PRIO_PROCESS, 0) + increment)


def set_niceness(pid: int, niceness: int) -> bool:
    """Set the niceness of a process, its descendants, and their sessions.

    It is at most MAX_NICENESS. `spawn` has created a session for each of these processes. Linux compares the priorities
    of sessions first, if autogroups are enabled (sched(7)). It lets a process without privileges change the priority of
    one session per 0.1 s. Returns False when it has refused a change for this reason: call the function again.
    """
    niceness = min(niceness, MAX_NICENESS)
    process = Path("/proc", str(pid))
    children: list[int] = []
    with contextlib.suppress(OSError):  # the process has ended
        for thread in (process / "task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended, or the kernel does not list children
                os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
                children += map(int, (thread / "children").read_text().split())
    return all([_set_session_niceness(process, niceness), *(set_niceness(child, niceness) for child in children)])


def _set_session_niceness(process: Path, niceness: int) -> bool:
    """Return False when Linux refuses the change because of an earlier one."""
    autogroup = process / "autogroup"
    try:
        if autogroup.read_text().split()[-1:] != [str(niceness)]:
            autogroup.write_text(str(niceness))
    except BlockingIOError:
        return False
    except OSError:  # the process has ended, or there are no autogroups
        return True
    return True


class Child:
    """A started process. Thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        """Return the exit status of the process; None while it runs.

        −N means that signal N killed the process.
        """
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait until the process ends, for at most `timeout_s`.

        Return its exit status; None when it still runs.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def send(self, signal_: signal.Signals) -> None:
        """Send a signal to the process, if it still runs."""
        self._process.send_signal(signal_)

    def stop(self, grace_s: float) -> int:
        """Send SIGTERM, and SIGKILL when the process still runs after `grace_s`.

        Return the exit status.
        """
        self.send(signal.SIGTERM)
        status = self.wait(grace_s)
        if status is None:
            self.send(signal.SIGKILL)
            status = self._process.wait()
        return status


class _Spawner(threading.Thread):
    """The thread that forks all children. It must not end before the process does."""

    def __init__(self) -> None:
        super().__init__(name="spawner", daemon=True)
        self._requests: queue.SimpleQueue[tuple[Callable[[], Child], Future[Child]]] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            start, future = self._requests.get()
            try:
                future.set_result(start())
            # `submit` raises the error. This thread must survive it: the kernel kills all children when it ends.
            except Exception as error:  # noqa: BLE001
                future.set_exception(error)

    def submit(self, start: Callable[[], Child]) -> Child:
        future: Future[Child] = Future()
        self._requests.put((start, future))
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
    stdin: StdioTarget = subprocess.DEVNULL,
    stdout: StdioTarget = None,
    stderr: StdioTarget = None,
    pass_fds: Sequence[int] = (),
    cgroup_procs: Path | None = None,
) -> Child:
    """Start a program in a session of its own.

    Because of the session, a signal of the terminal (Ctrl-C) reaches only the parent, which then stops its children in
    order. The child ends at the latest when this process ends. Raises OSError.

    Args:
        argv: The command line. `argv[0]` is an absolute path.
        env: The environment of the child; default: `inherited_environment()`.
        cwd: The working directory of the child.
        stdin: Where the child reads its input. This and the next three arguments have the values of `subprocess.Popen`.
        stdout: Where the child writes its output.
        stderr: Where the child writes its errors.
        pass_fds: File descriptors that stay open in the child.
        cgroup_procs: The `cgroup.procs` file of the control group that the child enters before it executes the program.
            A child that can't enter exits with status 1.
    """

    def start() -> Child:
        wrapped = [sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), str(cgroup_procs or ""), *argv]
        return Child(
            subprocess.Popen(
                wrapped,
                env=inherited_environment() if env is None else dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        )

    return _get_spawner().submit(start)
