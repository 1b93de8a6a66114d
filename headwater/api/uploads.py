"""Bodies of values are read and stored on threads of their own: they compute for long, and clients may send slowly.

A thread asks for the next bytes when it is done with those before, so the server takes no more from the client than one
upload can store; the event loop only passes bytes on. The server ends a body that stops coming, which gives its thread
back.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import TypeVar

from anyio import from_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from headwater.api.turns import Turns
from headwater.errors import MalformedRequest

MAX_UPLOADS_AT_ONCE = 32
MAX_UPLOADS_PER_OWNER = 8
"""Five at once are normal load; one owner's slow clients must not keep all others waiting."""

T = TypeVar("T")


async def upload(request: Request, work: Callable[[Iterator[bytes]], T]) -> T:
    """Run `work` on the body's bytes when it is the owner's turn.

    They raise MalformedRequest when the client goes away before their end, or the server gives the client up.
    """
    body = request.stream()

    def chunks() -> Iterator[bytes]:
        while chunk := from_thread.run(_next, body):
            yield chunk

    turns: Turns = request.app.state.uploads
    return await turns.run(request.scope["api_key"].owner, partial(work, chunks()))


async def _next(body: AsyncGenerator[bytes, None]) -> bytes:
    try:
        return await anext(body, b"")
    except ClientDisconnect as error:
        raise MalformedRequest("The body broke off. Nothing was changed.") from error
