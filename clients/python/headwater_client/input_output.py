"""Does the input and output of the client, for synchronous and for asynchronous code."""

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeAlias, TypeVar

import httpx2

from headwater_client.operations import run

T = TypeVar("T")

Chunks: TypeAlias = Iterable[bytes] | AsyncIterable[bytes]

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The maximum size of a server-sent event.

An event has at most 2 MB of records, or one larger record, of each of up to 10 tails; base64 and JSON enlarge them.
"""


class InputOutput(Protocol):
    """Input and output of the client's coroutines."""

    async def send(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        """Send a request. With `stream`, the body of the response is not read."""

    def body(self, chunks: Chunks) -> Chunks:
        """Return the chunks of a request's body in the form that `send` needs."""

    async def read(self, response: httpx2.Response) -> bytes:
        """Return the body of a response, and close it."""

    def events(self, response: httpx2.Response) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        """Yield the server-sent events of a response, and close it."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def parallel(self, jobs: AsyncIterable[Coroutine[Any, Any, T]], limit: int) -> AsyncGenerator[T, None]:
        """Run at most `limit` jobs at once, and yield their results, in any order."""

    async def close(self) -> None:
        """Close all connections."""


class BlockingInputOutput:
    """Blocks the thread, so its coroutines are never suspended."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    async def send(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        return self._http.send(request, stream=stream)

    def body(self, chunks: Chunks) -> Chunks:
        return chunks

    async def read(self, response: httpx2.Response) -> bytes:
        with contextlib.closing(response):
            return response.read()

    async def events(self, response: httpx2.Response) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        try:
            for event in httpx2.EventSource(response, MAX_EVENT_BYTES):
                yield event
        finally:
            response.close()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop runs this coroutine

    async def parallel(self, jobs: AsyncIterable[Coroutine[Any, Any, T]], limit: int) -> AsyncGenerator[T, None]:
        pending: set[Future[T]] = set()
        with ThreadPoolExecutor(limit) as pool:
            async for job in jobs:
                pending.add(pool.submit(run, job))
                if len(pending) == limit:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()

    async def close(self) -> None:
        self._http.close()


class AsyncioInputOutput:
    """Uses the running asyncio loop.

    The methods import asyncio, which a synchronous program does not need: it would make a command start more slowly.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def send(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        return await self._http.send(request, stream=stream)

    def body(self, chunks: Chunks) -> Chunks:
        return chunks if isinstance(chunks, AsyncIterable) else _as_async(chunks)

    async def read(self, response: httpx2.Response) -> bytes:
        async with contextlib.aclosing(response):
            return await response.aread()

    async def events(self, response: httpx2.Response) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        try:
            async for event in httpx2.EventSource(response, MAX_EVENT_BYTES):
                yield event
        finally:
            await response.aclose()

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    async def parallel(self, jobs: AsyncIterable[Coroutine[Any, Any, T]], limit: int) -> AsyncGenerator[T, None]:
        import asyncio

        pending: set[asyncio.Task[T]] = set()
        try:
            async for job in jobs:
                pending.add(asyncio.create_task(job))
                if len(pending) == limit:
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        yield task.result()
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def close(self) -> None:
        await self._http.aclose()


async def _as_async(chunks: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk
