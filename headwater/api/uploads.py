"""Runs routes whose request body is parsed while it arrives."""

from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import TypeVar

from anyio import from_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from headwater.api.owner_limiter import OwnerLimiter
from headwater.errors import MalformedRequest

T = TypeVar("T")


async def run_upload(request: Request, store: Callable[[Iterator[bytes]], T]) -> T:
    """Call `store` with the chunks of the request body, on a thread, and return its result.

    The upload waits until the limits of uploads allow it. The thread requests the next chunk only after it has
    processed the previous one. A PUT stores the values as they arrive, so a slow store slows the client down; other
    uploads read the whole body first. The event loop only passes chunks on. The iterator raises
    MalformedRequest when the client disconnects before the end of the body, or when the server closes the connection
    because the body has stopped arriving.
    """
    body = request.stream()

    def chunks() -> Iterator[bytes]:
        while chunk := from_thread.run(_next_chunk, body):
            yield chunk

    limiter: OwnerLimiter = request.app.state.upload_limiter
    return await limiter.run(request.scope["api_key"].owner, partial(store, chunks()))


async def _next_chunk(body: AsyncGenerator[bytes, None]) -> bytes:
    try:
        return await anext(body, b"")
    except ClientDisconnect as error:
        raise incomplete_body() from error


def incomplete_body() -> MalformedRequest:
    """Return the error for a body whose connection ended too early."""
    return MalformedRequest(
        "The connection ended before the whole body had arrived. Nothing was changed; send the request again."
    )
