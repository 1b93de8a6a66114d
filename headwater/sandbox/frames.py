"""Frames between the parent and its child.

A frame is its type (u8), the length of the payload (u32, little-endian), and the payload. The child is not trusted. The
length of a frame is checked before its payload is read, and file descriptors that the child attaches are never
received.
"""

import enum
import select
import socket
import struct
from typing import NamedTuple

from headwater.native import uninitialized_bytes, writable_view

MAX_FRAME_BYTES = 64 << 20
SOCKET_BUFFER_BYTES = 4 << 20
_HEADER = struct.Struct("<BI")
_MAX_PARTS = 4
"""The most parts of one frame. A SEGMENT has a frame header, a binary header, the columns, and the records.

If more parts wait to be sent, they are parts of more than one frame.
"""


class Kind(enum.IntEnum):
    """The types of frames. The first word of each comment names the sender.

    harness/main.js has the same numbers.
    """

    HELLO = 0  # child: started
    # parent: realm number (u16), flags (u8), time limit in ms (u16); then lines: columns, long integers, records
    SEGMENT = 1
    LOOKUP_REQUEST = 2  # child: [dataset name, [value, …], …] as JSON
    RESULTS = 3  # child: a line per record; SUMMARY follows
    # parent, to LOOKUP_REQUEST: a line per dataset name, "?" for an unknown name or a digit per value
    LOOKUP_RESPONSE = 4
    LOAD = 5  # parent: realm number (u16), whether the script must block on each answer (u8), source text
    LOADED = 6  # child: the script is ready
    TRACE = 7  # child: the index in its segment of the record that the child processes now
    LOAD_FAILED = 8  # child: why the script can't be loaded, as an error line
    HARNESS_ERROR = 9  # child: an error of the harness itself
    # child: values of one dataset, in the form of LOOKUP_REQUEST. The script blocks until SYNC_LOOKUP_RESPONSE; nothing
    # else is in flight.
    SYNC_LOOKUP_REQUEST = 10
    SYNC_LOOKUP_RESPONSE = 11  # parent, to SYNC_LOOKUP_REQUEST: in the form of LOOKUP_RESPONSE
    SUMMARY = 12  # child: log lines, and a line that counts them and the records of RESULTS
    STRIP = 20  # parent, only to a child that validates scripts: a text whose TypeScript types are to be stripped
    STRIPPED = 21  # child: the text without types; empty when the text compiles as JavaScript


class Frame(NamedTuple):
    """One frame: its type, as the child sent it, and its payload."""

    kind: int
    payload: bytes


class ChannelClosed(Exception):
    """The child closed its end of the socket: it has ended or is about to."""


class ProtocolError(Exception):
    """The child violated the protocol."""


class Channel:
    """The parent's end of the socket.

    Only `wait` blocks. A channel is used by one thread at a time.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._outgoing: list[memoryview] = []
        self._header = bytearray(_HEADER.size)
        self._payload: bytes | None = None
        self._filled = 0

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the parent's end. The child then reads end-of-file and exits."""
        self._socket.close()

    def send(self, kind: Kind, *parts: bytes | memoryview) -> None:
        """Queue one frame, and send as much as the socket accepts.

        When the parent sends a frame, the child has replied to all earlier frames except at most one. If more than
        _MAX_PARTS parts are still queued, they belong to two earlier frames, and the child has replied to one that it
        can't have read completely: this raises ProtocolError. Also raises ChannelClosed.
        """
        if len(self._outgoing) > _MAX_PARTS:
            raise ProtocolError("the child replied to a frame that it has not read")
        header = _HEADER.pack(kind, sum(map(len, parts)))
        self._outgoing += [memoryview(part) for part in (header, *parts)]
        self.flush()

    def flush(self) -> None:
        """Send the queued bytes, as far as the socket accepts them. Raises ChannelClosed."""
        while self._outgoing:
            try:
                sent = self._socket.sendmsg(self._outgoing)
            except BlockingIOError:
                return
            except OSError as error:
                raise ChannelClosed from error
            while self._outgoing and sent >= len(self._outgoing[0]):
                sent -= len(self._outgoing.pop(0))
            if sent:
                self._outgoing[0] = self._outgoing[0][sent:]

    def receive(self) -> Frame | None:
        """Return the next frame, or None while it has not arrived completely.

        Raises ChannelClosed, ProtocolError.
        """
        self.flush()
        if self._payload is None:
            if not self._fill(memoryview(self._header)):
                return None
            _, length = _HEADER.unpack(self._header)
            if length > MAX_FRAME_BYTES:
                raise ProtocolError(f"the child sent a frame of {length} bytes")
            self._payload, self._filled = uninitialized_bytes(length), 0
        if not self._fill(writable_view(self._payload)):
            return None
        frame = Frame(self._header[0], self._payload)
        self._payload, self._filled = None, 0
        return frame

    def wait(self, timeout_s: float) -> None:
        """Block until a frame may have arrived, for at most `timeout_s`."""
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
                raise ChannelClosed from error
            if not count:
                raise ChannelClosed
            self._filled += count
        return True


def open_pair() -> tuple[Channel, socket.socket]:
    """Return the parent's channel, and the connected socket of the child.

    The socket is the child's standard input and output.
    """
    parent_end, child_end = socket.socketpair()
    for end in (parent_end, child_end):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    return Channel(parent_end), child_end
