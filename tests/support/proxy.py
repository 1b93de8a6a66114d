"""A TCP proxy that simulates a bad network.

It simulates latency, low bandwidth, small segments, stalls and resets.

Bytes are never lost or changed: to a program, real packet loss looks like a connection that stalls, and then continues
or is reset.
"""

import asyncio
import contextlib
import math
import random
import socket
import ssl
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

Address = tuple[str, int]
Direction = Literal["to_server", "to_client"]

CHUNK_BYTES = 64 << 10
SLICE_PAUSE_S = 0.001
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 s: close sends RST


@dataclass(frozen=True)
class Conditions:
    """The state of the network.

    Attributes:
        latency_s: Each chunk is delayed by half of this time to all of it.
        bytes_per_s: The bandwidth.
        slice_bytes: The largest number of bytes that arrive at once; 0 for no limit.
        held: Directions in which nothing passes.
        refused: Whether all connections, new ones too, are reset.
    """

    latency_s: float = 0.0
    bytes_per_s: float = math.inf
    slice_bytes: int = 0
    held: frozenset[Direction] = frozenset()
    refused: bool = False


CLEAR = Conditions()


@dataclass(eq=False)
class _Connection:
    """A client's connection and its connection to the server.

    Attributes:
        abandoned: Whether the server's side was reset while the client's side stays open.
    """

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    abandoned: bool = field(default=False)

    def reset(self) -> None:
        """Reset both sides."""
        for side in (self.client, self.server):
            _reset(side)


class Proxy:
    """Forwards connections from one address to another.

    The conditions can change at any time.

    Its methods are called from one thread; the proxy itself runs in another. `run_number` is the seed of its random
    choices. With a TLS context, the proxy terminates TLS.
    """

    def __init__(self, listen: Address, target: Address, run_number: int, tls: ssl.SSLContext | None = None) -> None:
        self.address = listen
        self._target = target
        self._tls = tls
        self._random = random.Random(run_number)
        self._conditions = CLEAR
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy {listen[1]}", daemon=True)

    def start(self) -> None:
        """Start listening. Raise OSError."""
        self._thread.start()
        self._server = self._call(self._open())

    async def _open(self) -> asyncio.Server:
        return await asyncio.start_server(self._accepted, *self.address, limit=CHUNK_BYTES, ssl=self._tls)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Stop listening and reset all connections."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        await self._set(Conditions(refused=True))  # for accepted connections that have no task yet
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    # Faults.

    def set(self, conditions: Conditions) -> None:
        """Change the conditions. Reset the connections that `half_open` has abandoned."""
        self._call(self._set(conditions))

    async def _set(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._changed.set()
        self._changed.clear()
        for connection in [each for each in self._connections if each.abandoned or conditions.refused]:
            connection.reset()
            self._connections.discard(connection)

    def reset(self) -> None:
        """Reset every connection. New connections work."""
        self._call(self._reset_all())

    async def _reset_all(self) -> None:
        for connection in self._connections:
            connection.reset()
        self._connections.clear()

    def half_open(self) -> None:
        """Reset the server's side of every connection. The clients' sides stay open until `set`."""
        self._call(self._half_open())

    async def _half_open(self) -> None:
        for connection in self._connections:
            connection.abandoned = True
            _reset(connection.server)

    # Forwarding.

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # raised by `_close`; asyncio would log it
            await self._forward(reader, writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._conditions.refused:
            _reset(writer)
            return
        try:
            from_server, to_server = await asyncio.open_connection(*self._target, limit=CHUNK_BYTES)
        except OSError:
            _reset(writer)
            return
        connection = _Connection(writer, to_server)
        self._connections.add(connection)
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._pump(reader, to_server, "to_server", connection),
                self._pump(from_server, writer, "to_client", connection),
            )
        if not connection.abandoned:
            self._connections.discard(connection)
            connection.reset()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: Direction, connection: _Connection
    ) -> None:
        while data := await source.read(CHUNK_BYTES):
            await self._delay(len(data), way)
            if connection.abandoned:
                return
            await self._write(data, target)
        if target.can_write_eof() and not connection.abandoned:
            target.write_eof()

    async def _delay(self, size: int, way: Direction) -> None:
        now = self._conditions
        pause_s = now.latency_s * self._random.uniform(0.5, 1.0) + size / now.bytes_per_s
        if pause_s:
            await asyncio.sleep(pause_s)
        while way in self._conditions.held:
            await self._changed.wait()

    async def _write(self, data: bytes, target: asyncio.StreamWriter) -> None:
        most = self._conditions.slice_bytes
        while most and len(data) > most:
            size = self._random.randint(1, most)
            target.write(data[:size])
            data = data[size:]
            await target.drain()
            await asyncio.sleep(SLICE_PAUSE_S)
        target.write(data)
        await target.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    if raw := writer.get_extra_info("socket"):  # a closed TLS connection has no socket
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
