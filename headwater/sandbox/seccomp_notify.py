"""Decides on the system calls of a starting child that the seccomp filter reports.

The kernel's name for such a report is SECCOMP_RET_USER_NOTIF.
"""

import errno
import fcntl
import os
import struct

from headwater.sandbox.launcher.seccomp import ALLOWED_AT_START, EXPECTED_REFUSALS
from headwater.sandbox.launcher.syscalls import NUMBERS, name_of

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST_BYTES = 80
_REQUEST = struct.Struct("<QIIi")  # id, pid, flags, call number
_RESPONSE = struct.Struct("<QqiI")  # id, value, error, flags
_CONTINUE = 1
_ALLOWED = frozenset(NUMBERS[name] for name in ALLOWED_AT_START)


class SeccompListener:
    """Receives the system calls that a starting child makes, and allows or refuses each.

    While the listener is open, only the start-up code of Headwater and Deno runs, and no user's script. So
    SECCOMP_USER_NOTIF_FLAG_CONTINUE is safe here.

    Attributes:
        refused: The names of the refused calls, without EXPECTED_REFUSALS.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.refused: set[str] = set()

    def fileno(self) -> int:
        """Return the file descriptor, for use with poll."""
        return self._descriptor

    def handle_next_call(self) -> None:
        """Allow or refuse the next reported system call.

        Call this only when the descriptor is readable.
        """
        request = bytearray(_REQUEST_BYTES)
        try:
            fcntl.ioctl(self._descriptor, _RECEIVE, request)
            call_id, _, _, number = _REQUEST.unpack_from(request)
            fcntl.ioctl(self._descriptor, _SEND, self._response(call_id, number))
        except OSError as error:
            # The thread that made the call has ended, or was interrupted and will repeat the call.
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _response(self, call_id: int, number: int) -> bytes:
        if number in _ALLOWED:
            return _RESPONSE.pack(call_id, 0, 0, _CONTINUE)
        if (name := name_of(number)) not in EXPECTED_REFUSALS:
            self.refused.add(name)
        return _RESPONSE.pack(call_id, 0, -errno.EPERM, 0)

    def close(self) -> None:
        """Close the listener. From then on, each call that it would report fails with ENOSYS."""
        os.close(self._descriptor)
