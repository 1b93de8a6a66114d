"""The response of a live tail: an event stream.

It lasts until the tail ends or the client disconnects.
"""

from collections.abc import Callable
from typing import Final

import anyio
from anyio import to_thread
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headwater.api.middleware import IS_HEAD
from headwater.api.tail_events import KEEP_ALIVE, end_event, tail_events
from headwater.services.live_tail import SEND_INTERVAL_S, Tail
from headwater.services.tail_connections import TailConnection, Tails

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE_EVERY_S: Final = 10.0
MAX_CONCURRENT_OPENINGS: Final = 8
"""How many connections open or close their tails at the same time. Further connections wait."""

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class TailResponse(Response):
    """Opens tails, then sends their records until they end.

    The tails are opened before the headers are sent, so an error becomes a problem document, and every record that is
    appended after the headers is in the tails. The tails are closed in any case.

    Args:
        tails: The service that closes the tails.
        opener: Opens the tails. It may block.
        limiter: Limits how many connections open or close their tails at the same time.
        names_topic: Whether each record says of which topic it is.
    """

    def __init__(
        self,
        tails: Tails,
        opener: Callable[[], TailConnection],
        limiter: anyio.CapacityLimiter,
        *,
        names_topic: bool = False,
    ) -> None:
        super().__init__(headers=_HEADERS, media_type=MEDIA_TYPE)
        del MutableHeaders(raw=self.raw_headers)["content-length"]
        self._tails = tails
        self._opener = opener
        self._limiter = limiter
        self._names_topic = names_topic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.CancelScope(shield=True):  # else the tails would stay open when the process stops meanwhile
            opened = await to_thread.run_sync(self._opener, limiter=self._limiter)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if not scope.get(IS_HEAD):
                await self._send_until_end(opened, receive, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._tails.close, opened, limiter=self._limiter)

    async def _send_until_end(self, opened: TailConnection, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(_cancel_on_disconnect, receive, task_group.cancel_scope)
            await self._send_events(opened, send)
            task_group.cancel_scope.cancel()

    async def _send_events(self, opened: TailConnection, send: Send) -> None:
        """Send the updates of the tails, every SEND_INTERVAL_S seconds.

        While the client does not read, `send` waits, and the tails count the records that they can't keep.
        """
        active = list(opened.tails.values())
        sent_at = anyio.current_time()
        while True:
            next_send_at = anyio.current_time() + SEND_INTERVAL_S
            events, active = self._next_events(opened, active)
            if not events and anyio.current_time() - sent_at >= KEEP_ALIVE_EVERY_S:
                events = KEEP_ALIVE
            if events:
                await send({"type": "http.response.body", "body": events, "more_body": True})
                sent_at = anyio.current_time()
            if not active:
                return
            await anyio.sleep_until(next_send_at)

    def _next_events(self, opened: TailConnection, active: list[Tail]) -> tuple[bytes, list[Tail]]:
        """Return the next events of the active tails, and the tails that stay active."""
        end = opened.end_reason  # read first, so that all records before the end are sent
        updates = [(tail, tail.take()) for tail in active]
        events = tail_events(updates, names_topic=self._names_topic)
        if end is not None:
            return events + end_event(end), []
        for tail, update in updates:
            if update.end is not None:
                events += end_event(update.end, tail.topic.selector if self._names_topic else None)
        return events, [tail for tail, update in updates if update.end is None]


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
