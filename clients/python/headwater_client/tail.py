"""Live tails: server-sent events, with a new connection when one ends."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from headwater_client.call import Call
from headwater_client.decoding import decode
from headwater_client.models.records import Record, Skipped, TailEnd
from headwater_client.session import Session, StreamBroken

FINAL_REASONS = frozenset({"deployment_ended", "topic_removed", "key_ended"})
"""Reasons for the end of a tail after which a new connection would get no records."""

RECONNECT_S = 0.5

OnSkipped = Callable[[Skipped], None]
OnOpen = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TailHooks:
    """Functions that are called during a tail.

    Attributes:
        on_open: Called when a connection is open: records that are appended from then on are shown.
        on_skipped: Called when the server leaves records out, because they are too many.
    """

    on_open: OnOpen | None = None
    on_skipped: OnSkipped | None = None


async def tail(
    session: Session, path: str, query: dict[str, Any], hooks: TailHooks, timeout: float | None
) -> AsyncGenerator[Record, None]:
    """Yield the records that are appended from now on, until all tails have ended for good.

    A connection that breaks or ends is opened again; what was appended meanwhile is not shown.
    """
    open_tails = _OpenTails(query.get("of", []))
    while open_tails.is_open:
        of = {"of": open_tails.names} if open_tails.names else {}
        events = session.events(Call("GET", path, bytes, {**query, **of}, timeout=timeout), hooks.on_open)
        try:
            async for event in events:
                for record in _records(event, open_tails, hooks):
                    yield record
        except StreamBroken:
            pass
        finally:
            await events.aclose()
        if open_tails.is_open:
            await session.io.sleep(RECONNECT_S)


class _OpenTails:
    """The tails of a connection that have not ended for good.

    Attributes:
        names: The streams and sinks of the tails; empty when the path of the request names the only one.
        is_open: Whether a tail may still get records.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.is_open = True

    def end(self, end: TailEnd) -> None:
        """Remove the ended tail, unless a new connection would get its records."""
        if end.reason not in FINAL_REASONS:
            return
        self.names = [name for name in self.names if end.of not in (None, name)]
        self.is_open = bool(self.names)


def _records(event: httpx2.ServerSentEvent, open_tails: _OpenTails, hooks: TailHooks) -> list[Record]:
    """Handle an event, and return its records."""
    if event.event == "records":
        return decode(event.data, list[Record])
    if event.event == "skipped" and hooks.on_skipped:
        hooks.on_skipped(decode(event.data, Skipped))
    if event.event == "end":
        open_tails.end(decode(event.data, TailEnd))
    return []
