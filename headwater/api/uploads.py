"""Bodies of values are read and stored on threads of their own: they compute for long, and clients may send slowly.

A thread asks for the next bytes when it is done with those before, so the server takes no more from the client than one
upload can store; the event loop only passes bytes on.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

from anyio import from_thread, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from headwater.errors import MalformedRequest

MAX_UPLOADS_AT_ONCE = 32

T = TypeVar("T")


async def upload(request: Request, work: Callable[[Iterator[bytes]], T]) -> T:
    """Run `work` on the body's bytes. They raise MalformedRequest when the client goes away before their end."""
    body = request.stream()

    def chunks() -> Iterator[bytes]:
        while chunk := from_thread.run(_next, body):
            yield chunk

    return await to_thread.run_sync(work, chunks(), limiter=request.app.state.upload_threads)


async def _next(body: AsyncGenerator[bytes, None]) -> bytes:
    try:
        return await anext(body, b"")
    except ClientDisconnect as error:
        raise MalformedRequest("The body broke off. Nothing was changed.") from error
