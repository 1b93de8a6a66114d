"""The steps, in order. Arguments: channel descriptor, data limit in bytes, "jit" or "jitless", "maps" or "no-maps",
then the engine's argv.

What goes wrong is told over the channel, as one message that starts with "E"; else the channel carries "L" and the
seccomp listener.
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

_OOM_SCORE = "500"
_OPEN_FILES = 64
_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "DENO_DIR": "/nonexistent",
    "DENO_NO_UPDATE_CHECK": "1",
    "NO_COLOR": "1",
}


def main() -> None:
    """Lock this process up and become the engine."""
    channel_number, data_bytes, mode, maps, *argv = sys.argv[1:]
    channel = socket.socket(fileno=int(channel_number))
    channel.set_inheritable(False)
    step = "resource limits"
    try:
        _limit(int(data_bytes))
        step = "Landlock"
        landlock.restrict(Path(argv[0]), own_maps=maps == "maps")
        step = "seccomp"
        filtering = seccomp.program(os.getpid(), channel.fileno(), jit=mode == "jit")
        listener = seccomp.install(filtering)
    except OSError as error:
        channel.send(f"E{step}: {error}".encode())
        os._exit(1)
    socket.send_fds(channel, [b"L"], [listener])
    os.close(listener)
    os.execve(argv[0], argv, _ENVIRONMENT)  # noqa: S606  # becoming the engine, without a shell, is the point


def _limit(data_bytes: int) -> None:
    # Where /proc is read-only the kernel picks its victim without our hint; nothing else depends on it.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
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
