"""An attacker without an API key, as a process of its own.

`python -m tests.chaos.attacker slow|fast PORT SECONDS SCALE` runs it.

Connections come from 127.0.0.2 to 127.0.0.9. The slow process sends slow request heads and slow bodies, and does not
read responses. The fast process sends endless request heads, long HTTP pipelines, and invalid API keys. The last line
that a process prints is a JSON object with the number of times it counts each.
"""

import asyncio
import contextlib
import json
import os
import random
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from headwater.model.key import generate_key

SOURCES = tuple(f"127.0.0.{last}" for last in range(2, 10))
SLOW_CONNECTIONS = 10_000
HEAD_BYTES = 1_000_000_000
HEADS_AT_ONCE, BODIES_AT_ONCE, READERS_AT_ONCE, PIPELINES_AT_ONCE, KEYS_AT_ONCE = 32, 64, 64, 8, 16
KEYS_PER_S = 400
COME_BACK_S = {"slow": (5.0, 35.0), "fast": (0.5, 3.5)}
"""How long a client waits before it connects again, by kind of process."""
CHUNK = b"X-Attack: " + b"a" * 8_000 + b"\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Attacker:
    """Runs all connections of one kind of process. A scale of 1 is the full attack."""

    def __init__(self, kind: str, port: int, seconds: float, scale: float) -> None:
        self._kind = kind
        self._port = port
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._scale = scale
        self._sources = 0
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        actions: dict[str, list[tuple[Callable[[], Awaitable[None]], int]]] = {
            "slow": [
                (self._slow_head, self._scaled(SLOW_CONNECTIONS)),
                (self._slow_body, self._scaled(BODIES_AT_ONCE)),
                (self._never_reads, self._scaled(READERS_AT_ONCE)),
            ],
            "fast": [
                (self._endless_head, self._scaled(HEADS_AT_ONCE)),
                (self._pipeline, self._scaled(PIPELINES_AT_ONCE)),
                (self._bad_key, KEYS_AT_ONCE),
            ],
        }
        await asyncio.gather(*(self._repeat(action) for action, count in actions[self._kind] for _ in range(count)))

    def _scaled(self, count: int) -> int:
        return max(1, int(count * self._scale))

    async def _repeat(self, action: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(random.uniform(0, min(10.0, self._seconds / 3)))
        while time.monotonic() < self._until:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(max(0.1, self._until - time.monotonic())):
                    await action()
            await self._sleep(random.uniform(*COME_BACK_S[self._kind]))

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, min(seconds, self._until - time.monotonic())))

    async def _connect(self, buffer_bytes: int = 2_048) -> Connection:
        self._sources += 1
        connection = socket.socket()
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            connection.bind((SOURCES[self._sources % len(SOURCES)], 0))
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port)), 30)
        except BaseException:
            connection.close()
            raise
        self.counts[f"connections, {self._kind}"] += 1
        return await asyncio.open_connection(sock=connection, limit=4_096)

    @contextlib.asynccontextmanager
    async def _connected(self):  # type: ignore[no-untyped-def]  # noqa: ANN202
        reader, writer = await self._connect()
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _slow_head(self) -> None:
        async with self._connected() as (reader, writer):
            self.counts["slow heads"] += 1
            writer.write(b"GET /api/v1/flow HTTP/1.1\r\nHost: a\r\nX: ")
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(4_096), random.uniform(3, 9))
            self.counts["slow heads ended by the server"] += 1

    async def _endless_head(self) -> None:
        if self.counts["bytes of heads"] >= HEAD_BYTES * self._scale:
            return
        async with self._connected() as (_, writer):
            writer.write(b"GET /api/v1/flow HTTP/1.1\r\nHost: a\r\n")
            while self.counts["bytes of heads"] < HEAD_BYTES * self._scale:
                writer.write(CHUNK * 8)
                await writer.drain()
                self.counts["bytes of heads"] += 8 * len(CHUNK)

    async def _slow_body(self) -> None:
        async with self._connected() as (reader, writer):
            self.counts["slow bodies"] += 1
            head = (
                "POST /api/v1/flow HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100000000"
            )
            writer.write(f"{head}\r\n\r\n".encode())
            while not reader.at_eof():
                writer.write(b" " * 64)
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(4_096), 1)

    async def _never_reads(self) -> None:
        async with self._connected() as (_, writer):
            self.counts["responses not read"] += 1
            for path in ("/openapi.json", "/metrics", "/docs/assets/swagger-ui-bundle.js"):
                writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            await writer.drain()
            await self._sleep(120)

    async def _pipeline(self) -> None:
        async with self._connected() as (reader, writer):
            self.counts["pipelines"] += 1
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n" * 5_000)
            await writer.drain()
            while await reader.read(4_096):
                pass

    async def _bad_key(self) -> None:
        """Send invalid keys. Every second one is well formed."""
        async with self._connected() as (reader, writer):
            for number in range(50):
                key = generate_key()[0] if number % 2 else "hw_live_guess"
                head = f"GET /api/v1/flow HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\n\r\n"
                writer.write(head.encode())
                status = (await reader.readuntil(b"\r\n")).split()[1].decode()
                self.counts[f"keys answered {status}"] += 1
                length = (await reader.readuntil(b"\r\n\r\n")).lower().partition(b"content-length: ")[2]
                await reader.readexactly(int(length.partition(b"\r\n")[0]))
                await self._sleep(KEYS_AT_ONCE / KEYS_PER_S)


def main() -> None:
    kind, port, seconds, scale = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if kind == "slow":
        os.nice(10)  # a real attacker does not use this machine's CPU
    attacker = Attacker(kind, port, seconds, scale)
    runner = partial(asyncio.wait_for, attacker.run(), seconds + 60)
    with contextlib.suppress(TimeoutError):
        asyncio.run(runner())
    print(json.dumps(dict(sorted(attacker.counts.items()))), flush=True)


if __name__ == "__main__":
    main()
