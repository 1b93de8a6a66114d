"""The audit log: who changed what, and when.

The actor is held in a context variable. It is set at the entry points (a request's API key, the command line, the
controller) and read where a change is recorded; otherwise every service and store method would need a parameter for
it. anyio copies the context into its threads. Code in other thread pools must use `with_actor`.
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
"""pending: the change has begun outside the database. An entry stays pending when a crash has hidden the outcome."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a change: an API key with its owner, or a part of Headwater.

    Attributes:
        key_id: The id of the API key, or the name of the part.
        ip, request_id: Those of the HTTP request, if there is one.
    """

    key_id: str
    owner: str = ""
    ip: str = ""
    request_id: str = ""


CLI = Actor("cli")
CONTROLLER = Actor("controller")
HEADWATER = Actor("headwater")
_acting: ContextVar[Actor] = ContextVar("acting", default=HEADWATER)


def actor() -> Actor:
    """Return the actor of the current context."""
    return _acting.get()


def set_actor(new_actor: Actor) -> None:
    """Set the actor of the current context."""
    _acting.set(new_actor)


@contextmanager
def with_actor(new_actor: Actor) -> Iterator[None]:
    """Set the actor for a block."""
    token = _acting.set(new_actor)
    try:
        yield
    finally:
        _acting.reset(token)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an object.

    Attributes:
        owner: The owner of the object.
        object: The id of the object; for the set of a filter, `<config id>.<transform uid>`.
        before, after: Numbers and hashes of the object's revisions, never its content: see docs/multi_tenancy.md.
    """

    action: Action
    owner: str
    object: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit log.

    Ids increase with time. key_id, ip and request_id are those of the actor.
    """

    id: int
    at: datetime
    key_id: str
    ip: str
    request_id: str
    change: Change
    state: State


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """A query for audit entries.

    Attributes:
        object: An object id. Entries of objects that belong to it are included, such as the filters of a configuration.
    """

    owner: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
