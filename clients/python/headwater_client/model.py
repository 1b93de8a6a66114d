"""The base of all models."""

from typing import Any

import msgspec


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a response. Members that this version does not know are left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, with times as text."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        return members


class Message(Model, frozen=True, kw_only=True):
    """A sentence that says what the request did."""

    message: str
