"""The server-sent events of live tails (the event stream format of the HTML standard)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from headwater.services.live_tail import END_DETAILS, EndReason, Tail, TailUpdate

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which clients ignore. It shows proxies and clients that the connection works."""


def tail_events(updates: Iterable[tuple[Tail, TailUpdate]], *, names_topic: bool) -> bytes:
    """Return the events for the updates of the tails of a connection.

    Args:
        updates: The update of each tail.
        names_topic: Whether each record says of which topic it is, because the connection has several tails.
    """
    found = list(updates)
    items = [item for tail, update in found for item in _items(tail, update, names_topic=names_topic)]
    events = [_event("records", b"[" + b",".join(items) + b"]")] if items else []
    events += [
        _event("skipped", msgspec.json.encode({"of": tail.topic.selector, "count": update.skipped}))
        for tail, update in found
        if update.skipped
    ]
    return b"".join(events)


def end_event(reason: EndReason, selector: str | None = None) -> bytes:
    """Return the event that ends all tails of a connection, or the tail of one topic."""
    members: Mapping[str, Any] = {} if selector is None else {"of": selector}
    return _event("end", msgspec.json.encode({**members, "reason": reason, "detail": END_DETAILS[reason]}))


def _items(tail: Tail, update: TailUpdate, *, names_topic: bool) -> Iterator[bytes]:
    prefix = b'{"of":' + msgspec.json.encode(tail.topic.selector) + b"," if names_topic else b""
    for record in update.records:
        item = record.json_with_headers if tail.topic.shows_headers else record.json
        yield prefix + item[1:] if prefix else item


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
