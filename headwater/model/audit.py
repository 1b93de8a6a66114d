"""The audit log: who changed what, and when.

A context variable has the current actor. The entry points set it (the API for each request, the command line, the
controller), and the code that records a change reads it, so that services and stores need no parameter for the actor.
anyio copies the context into its threads. Code in other thread pools must use `with_actor`.
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
    "flow.pause",
    "flow.resume",
    "flow.rewind",
    "flow.rollback",
    "dead_letters.redrive",
    "flow.rotate_credentials",
    "deployment.record_ended",  # an operator has recorded that a deployment or configuration has ended
    "key.create",
    "key.revoke",
    "key.create_code",
    "key.sign_in",
    "dataset.create",
    "dataset.delete",
    "filter_values.add",
    "filter_values.remove",
    "filter_values.replace",
    "dataset_entries.add",
    "dataset_entries.remove",
]

State = Literal["pending", "done", "failed"]
"""The state of a change.

A change outside the database, such as a change of a set in Redis, is pending until it is done or has failed. It stays
pending when a crash hides whether it was done.
"""


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a change: an API key with its owner, or a part of Headwater.

    Attributes:
        key_id: The id of the API key, or the name of the part of Headwater.
        owner: The owner of the API key.
        ip: The client address of the HTTP request; empty without a request.
        request_id: The id of the HTTP request; empty without a request.
    """

    key_id: str
    owner: str = ""
    ip: str = ""
    request_id: str = ""


CLI_ACTOR = Actor("cli")
CONTROLLER_ACTOR = Actor("controller")
HEADWATER_ACTOR = Actor("headwater")
_actor: ContextVar[Actor] = ContextVar("actor", default=HEADWATER_ACTOR)


def current_actor() -> Actor:
    """Return the actor of the current context."""
    return _actor.get()


def set_actor(new_actor: Actor) -> None:
    """Set the actor of the current context."""
    _actor.set(new_actor)


@contextmanager
def with_actor(new_actor: Actor) -> Iterator[None]:
    """Set the actor for a block."""
    token = _actor.set(new_actor)
    try:
        yield
    finally:
        _actor.reset(token)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an object.

    Attributes:
        owner: The owner of the object.
        object: The id of the object; for the set of a filter, `<config_id>.<transform_uid>`.
        before: The version of the object before the change, such as the number and the hash of a revision. The content
            of the object is never recorded. See docs/multi_tenancy.md.
        after: The version of the object after the change.
    """

    action: Action
    owner: str
    object: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit log. See Actor for `key_id`, `ip` and `request_id`.

    Attributes:
        id: The number of the entry. A later entry has a larger number.
        at: The time of the change.
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
        owner: Only entries with this owner; None means all owners.
        object: Only entries with this object id, or with an object that belongs to it, such as a filter of a
            configuration; None means all objects.
        since: Only entries at or after this time.
        until: Only entries before this time.
        limit: The maximum number of entries.
    """

    owner: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
