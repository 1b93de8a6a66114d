"""Frames between the supervisor and its child: type (u8), length (u32, little-endian), payload.

The child is not trusted: a frame is measured before it is read, and reading never takes descriptors along.
"""

import enum
import select
import socket
import struct
from typing import NamedTuple

from headwater.native import blank_bytes, writable

MAX_FRAME_BYTES = 64 << 20
SOCKET_BUFFER_BYTES = 4 << 20
_HEADER = struct.Struct("<BI")
_MAX_PARTS = 4
"""Of a frame: its header, and of a batch the header, the columns and the records."""


class Kind(enum.IntEnum):
    """Types of frames; the first word says who sends it."""

    HELLO = 0  # child: started
    BATCH = 1  # parent: script (u16), flags (u8), limit in ms (u16); a line of columns, of long integers, per record
    KEYS = 2  # child: [name, [value, …], …] as JSON
    RESULTS = 3  # child: a line per record; SUMMARY follows
    ANSWERS = 4  # parent: a line per name, "?" or a digit per value
    LOAD = 5  # parent: script number (u16), whether it keeps something from record to record (u8), then the script
    LOADED = 6  # child: the script is ready
    TRACE = 7  # child: number of the record that it starts with
    REFUSED = 8  # child: an error line: the script can't be loaded
    BROKEN = 9  # child: the harness itself failed
    ASK = 10  # child: a question as in KEYS, for which the script waits; nothing else may be on its way
    REPLY = 11  # parent: the answer to ASK, as in ANSWERS
    SUMMARY = 12  # child: log lines, and a line that counts them and the records of RESULTS
    STRIP = 20  # parent, to a checking child: a text that does not compile as a script
    STRIPPED = 21  # child: the text without the types of TypeScript; empty when it is a script


class Frame(NamedTuple):
    """One frame."""

    kind: int
    payload: bytes


class Closed(Exception):
    """The child's end is closed: it is dead or dying."""


class Malformed(Exception):
    """The child broke the protocol."""


class Channel:
    """The parent's end of the frame socket. Never blocks but in `wait`. Used by one thread at a time."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._outgoing: list[memoryview] = []
        self._header = bytearray(_HEADER.size)
        self._payload: bytes | None = None
        self._filled = 0

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close our end. The child reads end-of-file and exits."""
        self._socket.close()

    def send(self, kind: Kind, *parts: bytes | memoryview) -> None:
        """Queue one frame and send as much as the socket takes. Raises Closed, Malformed.

        One frame may still be on its way. When a second one is, the child has replied to a frame that it did not read.
        """
        if len(self._outgoing) > _MAX_PARTS:
            raise Malformed("replies to frames that were not read")
        header = _HEADER.pack(kind, sum(map(len, parts)))
        self._outgoing += [memoryview(part) for part in (header, *parts)]
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it. Raises Closed."""
        while self._outgoing:
            try:
                sent = self._socket.sendmsg(self._outgoing)
            except BlockingIOError:
                return
            except OSError as error:
                raise Closed from error
            while self._outgoing and sent >= len(self._outgoing[0]):
                sent -= len(self._outgoing.pop(0))
            if sent:
                self._outgoing[0] = self._outgoing[0][sent:]

    def receive(self) -> Frame | None:
        """The next frame, or None while it is not there in full. Raises Closed, Malformed."""
        self.flush()
        if self._payload is None:
            if not self._fill(memoryview(self._header)):
                return None
            _, length = _HEADER.unpack(self._header)
            if length > MAX_FRAME_BYTES:
                raise Malformed(f"a frame of {length} bytes")
            self._payload, self._filled = blank_bytes(length), 0
        if not self._fill(writable(self._payload)):
            return None
        frame = Frame(self._header[0], self._payload)
        self._payload, self._filled = None, 0
        return frame

    def wait(self, timeout_s: float) -> None:
        """Return when a frame may be there, at the latest after `timeout_s`."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        poll.poll(max(0.0, timeout_s) * 1000)

    def _fill(self, buffer: memoryview) -> bool:
        while self._filled < len(buffer):
            try:
                count = self._socket.recv_into(buffer[self._filled :])
            except BlockingIOError:
                return False
            except OSError as error:
                raise Closed from error
            if not count:
                raise Closed
            self._filled += count
        return True


def pair() -> tuple[Channel, socket.socket]:
    """A connected pair: our end, and the end that becomes the child's standard input and output."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    return Channel(ours), theirs
