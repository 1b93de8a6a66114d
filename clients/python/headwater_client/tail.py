"""Live tails: server-sent events, with a new connection when one ends."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from headwater_client.call import Call
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
    """Yield the records that are appended from now on, until the topics are gone.

    A connection that breaks or ends is opened again; what was appended meanwhile is not shown.
    """
    open_tails = _OpenTails(query.get("of", []))
    while open_tails.any:
        of = {"of": open_tails.topics} if open_tails.topics else {}
        events = session.events(Call("GET", path, bytes, {**query, **of}, timeout=timeout), hooks.on_open)
        try:
            async for event in events:
                for record in _records(event, open_tails, hooks):
                    yield record
        except StreamBroken:
            pass
        finally:
            await events.aclose()
        if open_tails.any:
            await session.io.sleep(RECONNECT_S)


class _OpenTails:
    """The topics of a connection that have not ended for good.

    Attributes:
        topics: Their names; empty for the tail of a single topic.
        any: Whether there are any.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = list(topics)
        self.any = True

    def end(self, end: TailEnd) -> None:
        """Note an end. Ends after which a new connection gets records change nothing."""
        if end.reason not in FINAL_REASONS:
            return
        self.topics = [topic for topic in self.topics if end.of not in (None, topic)]
        self.any = bool(self.topics)


def _records(event: httpx2.ServerSentEvent, open_tails: _OpenTails, hooks: TailHooks) -> list[Record]:
    """Handle an event, and return its records."""
    if event.event == "records":
        return msgspec.json.decode(event.data, type=list[Record])
    if event.event == "skipped" and hooks.on_skipped:
        hooks.on_skipped(msgspec.json.decode(event.data, type=Skipped))
    if event.event == "end":
        open_tails.end(msgspec.json.decode(event.data, type=TailEnd))
    return []
