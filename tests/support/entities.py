"""Entities for tests of what reads their fields."""

from typing import Any

from headwater.ingest.formats.columns import type_of
from headwater.model.stream import Entity, Field


def like(**example: Any) -> Entity:
    """An entity with this example record; fields that are null in it are strings."""
    fields = {name: Field(type_of(value) or "string", True, name) for name, value in example.items()}
    return Entity("entity", "of a test", (), None, (), fields, example)
