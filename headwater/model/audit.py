"""The audit log: who changed what, and when.

Who acts travels in a context variable, set once at the rim (a request's key, the command line, the controller), and is
read where the change is written. A parameter would have to go through every service and store method on the way; the
variable crosses into anyio's threads by itself, because anyio runs them in a copy of the caller's context. Threads of
any other pool start with the default: what runs there says `acting_as` itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Action = Literal[
    "flow.create",
    "flow.save",
    "flow.delete",
    "flow.deploy",
    "flow.teardown",
    "flow.rotate_credentials",
    "remains.give_up",
    "key.create",
    "key.revoke",
    "dataset.create",
    "dataset.delete",
    "filter_values.add",
    "filter_values.remove",
    "filter_values.replace",
    "dataset_entries.add",
    "dataset_entries.remove",
]

State = Literal["pending", "done", "failed"]
"""pending: begun outside the database; when it stays so, a crash has hidden how it ended."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: the id of an API key and its owner, or one of Headwater's own parts. ip, request_id: the request's."""

    key_id: str
    owner: str = ""
    ip: str = ""
    request_id: str = ""


CLI = Actor("cli")
CONTROLLER = Actor("controller")
HEADWATER = Actor("headwater")
_acting: ContextVar[Actor] = ContextVar("acting", default=HEADWATER)


def actor() -> Actor:
    """Who acts in this context."""
    return _acting.get()


def act_as(who: Actor) -> None:
    """Name who acts, in this context and those that are copied from it."""
    _acting.set(who)


@contextmanager
def acting_as(who: Actor) -> Iterator[None]:
    """`act_as` for a block."""
    token = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(token)


@dataclass(frozen=True, slots=True)
class Change:
    """What is changed. owner: whose object; object: its id (a filter's set is `<config id>.<transform uid>`).

    before and after tell the object's states by number and hash, never by content: see docs/operations.md.
    """

    action: Action
    owner: str
    object: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the log. Ids rise with time. key_id, ip and request_id are the actor's."""

    id: int
    at: datetime
    key_id: str
    ip: str
    request_id: str
    change: Change
    state: State


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries to read. object: also finds what belongs to it, as filters do to their configuration."""

    owner: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
