"""Answers the start-up notifications of a child's seccomp filter (Linux: SECCOMP_RET_USER_NOTIF)."""

import errno
import fcntl
import os
import struct

from headwater.sandbox.launcher.seccomp import STARTING, TRIED_IN_VAIN
from headwater.sandbox.launcher.syscalls import NUMBERS, name_of

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST_BYTES = 80
_REQUEST = struct.Struct("<QIIi")  # id, pid, flags, call number
_RESPONSE = struct.Struct("<QqiI")  # id, value, error, flags
_CONTINUE = 1
_ALLOWED = frozenset(NUMBERS[name] for name in STARTING)


class Listener:
    """The descriptor that a locked child's start-up calls arrive at. `refused` names the calls that were not allowed.

    Only start-up code of ours and of the engine runs while it is open, so letting a call continue is safe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.refused: set[str] = set()

    def fileno(self) -> int:
        """The descriptor, for polling."""
        return self._descriptor

    def answer_one(self) -> None:
        """Answer the next call. Call only when the descriptor is readable."""
        request = bytearray(_REQUEST_BYTES)
        try:
            fcntl.ioctl(self._descriptor, _RECEIVE, request)
            call_id, _, _, number = _REQUEST.unpack_from(request)
            fcntl.ioctl(self._descriptor, _SEND, self._response(call_id, number))
        except OSError as error:
            # The thread that made the call is gone, or was interrupted and will call again.
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _response(self, call_id: int, number: int) -> bytes:
        if number in _ALLOWED:
            return _RESPONSE.pack(call_id, 0, 0, _CONTINUE)
        if (name := name_of(number)) not in TRIED_IN_VAIN:
            self.refused.add(name)
        return _RESPONSE.pack(call_id, 0, -errno.EPERM, 0)

    def close(self) -> None:
        """From now on the kernel answers every such call with ENOSYS."""
        os.close(self._descriptor)
