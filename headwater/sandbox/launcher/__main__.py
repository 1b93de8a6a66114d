"""Applies the restrictions in order, and then executes Deno.

Arguments: the descriptor of the launch socket, the data limit in bytes, the increment of the niceness, "jit" or
"jitless", "read-proc-maps" or "no-proc-maps" (whether the process may read /proc/self/maps), and the command line of
Deno.

On an error the launcher sends one message over the launch socket that starts with "E". Otherwise it sends "L" with the
file descriptor of the seccomp listener.
"""

import contextlib
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from . import landlock, seccomp
from .syscalls import PRCTL_NO_NEW_PRIVS, PRCTL_PDEATHSIG, prctl

_OOM_SCORE_ADJ = "500"
_OPEN_FILES = 64
_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "DENO_DIR": "/nonexistent",
    "DENO_NO_UPDATE_CHECK": "1",
    "NO_COLOR": "1",
}


def main() -> None:
    """Restrict this process, and execute Deno in it."""
    descriptor, data_bytes, increment, jit, proc_maps, *argv = sys.argv[1:]
    launch_socket = socket.socket(fileno=int(descriptor))
    launch_socket.set_inheritable(False)
    step = "resource limits"
    try:
        _limit(int(data_bytes))
        _lower_priority(int(increment))
        step = "Landlock"
        landlock.restrict(Path(argv[0]), may_read_proc_maps=proc_maps == "read-proc-maps")
        step = "seccomp"
        filter_program = seccomp.program(os.getpid(), launch_socket.fileno(), jit=jit == "jit")
        listener = seccomp.install(filter_program)
    except OSError as error:
        launch_socket.send(f"E{step}: {error}".encode())
        os._exit(1)
    socket.send_fds(launch_socket, [b"L"], [listener])
    os.close(listener)
    os.execve(argv[0], argv, _ENVIRONMENT)  # noqa: S606  # this process becomes Deno, without a shell


def _lower_priority(increment: int) -> None:
    """Lower the CPU priority of this process and of its session.

    Linux compares the priorities of sessions first, if autogroups are enabled (sched(7)).
    """
    new_niceness = os.nice(increment)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(new_niceness))


def _limit(data_bytes: int) -> None:
    # Where /proc is read-only, the OOM killer chooses without our hint; nothing else depends on it.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)
    limits = {
        resource.RLIMIT_DATA: data_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    prctl(PRCTL_PDEATHSIG, signal.SIGKILL)
    prctl(PRCTL_NO_NEW_PRIVS, 1)


if __name__ == "__main__":
    main()
