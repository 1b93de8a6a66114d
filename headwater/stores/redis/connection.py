"""Connections for pipelines and scripts.

A connection is a socket with the encoder and the parser of hiredis. The pipelines of redis-py take three times as long
(690 µs beside 207 µs for 200 lookups), and the checkout of a connection from its pool takes as long as a round trip.
"""

import select
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import hiredis
import redis
from redis.connection import DefaultParser

from headwater.stores.redis.sockets import open_socket

Argument = bytes | str | int
Command = tuple[Any, ...]
"""The name of a command, and its arguments, each of which is an Argument."""
EncodedCommands = tuple[bytes, int]
"""Commands in the protocol of the server (RESP 2), and their number."""

_READ_BYTES = 1 << 16
_NOTHING_YET = object()


def encode_commands(commands: Sequence[Command]) -> EncodedCommands:
    """Encode commands in the protocol of the server."""
    return b"".join([hiredis.pack_command(command) for command in commands]), len(commands)


class Connection:
    """A connection to a server. The garbage collector closes a connection that nobody closed.

    After an error of `send` or `read`, the connection can only be closed: its next replies may belong to earlier
    commands.
    """

    def __init__(self, pool: redis.ConnectionPool) -> None:
        """pool: A pool of redis-py, with the address and the credentials of the server."""
        unconnected = pool.connection_class(**pool.connection_kwargs)  # has the settings as attributes
        try:
            self._socket = open_socket(unconnected)
        except OSError as error:
            raise redis.ConnectionError("the connection failed") from error
        self.close = weakref.finalize(self, self._socket.close)
        self._reader = hiredis.Reader(
            protocolError=redis.InvalidResponse, replyError=DefaultParser.parse_error, notEnoughData=_NOTHING_YET
        )
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        if greeting := _greeting(unconnected):
            data, count = encode_commands(greeting)
            self.send(data)
            self.read(count)

    def is_dead(self) -> bool:
        """Return whether the server has closed the connection.

        A closed connection is readable, and an open one without outstanding replies is not.
        """
        return bool(self._poll.poll(0))

    def send(self, data: bytes) -> None:
        """Send encoded commands. Raises errors of redis-py."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise redis.ConnectionError("the connection broke") from error

    def read(self, count: int) -> list[Any]:
        """Return the replies to `count` commands.

        Raises the first error among them, after all are read.
        """
        replies = [*islice(iter(self._reader.gets, _NOTHING_YET), count)]
        while len(replies) < count:
            self._reader.feed(self._receive())
            replies += islice(iter(self._reader.gets, _NOTHING_YET), count - len(replies))
        if any(issubclass(reply_type, redis.RedisError) for reply_type in {*map(type, replies)}):
            raise next(reply for reply in replies if isinstance(reply, redis.RedisError))
        return replies

    def _receive(self) -> bytes:
        try:
            received = self._socket.recv(_READ_BYTES)
        except OSError as error:
            raise redis.ConnectionError("the connection broke") from error
        if not received:
            raise redis.ConnectionError("the server closed the connection")
        return received


class IdleConnections:
    """The idle connections to all servers of a client. Thread-safe."""

    def __init__(self) -> None:
        self._idle: WeakKeyDictionary[redis.ConnectionPool, deque[Connection]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @contextmanager
    def connection(self, pool: redis.ConnectionPool) -> Iterator[Connection]:
        """Lend the block a connection to the server of a pool of redis-py.

        An error in the block closes it.
        """
        with self._lock:
            idle = self._idle.setdefault(pool, deque())
        connection = _pop_alive(idle) or Connection(pool)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        idle.append(connection)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            for idle in self._idle.values():
                while idle:
                    idle.pop().close()


def _pop_alive(idle: deque[Connection]) -> Connection | None:
    while idle:
        connection = idle.pop()
        if not connection.is_dead():
            return connection
        connection.close()
    return None


def _greeting(unconnected: Any) -> list[Command]:
    """Return the commands that begin a connection.

    unconnected: A connection of redis-py that is not connected.
    """
    user = (unconnected.username,) if unconnected.username else ()
    commands: list[Command] = []
    if unconnected.username or unconnected.password:
        commands.append(("AUTH", *user, unconnected.password or ""))
    if unconnected.client_name:
        commands.append(("CLIENT", "SETNAME", unconnected.client_name))
    if unconnected.db:
        commands.append(("SELECT", unconnected.db))
    return commands
