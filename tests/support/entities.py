"""Entities for tests of what reads their fields."""

from typing import Any

from headwater.model.stream import Entity, RecordField
from headwater.record_files.formats.text_columns import type_of


def like(**example: Any) -> Entity:
    """An entity with this example record; fields that are null in it are strings."""
    fields = {name: RecordField(type_of(value) or "string", True, name) for name, value in example.items()}
    return Entity("entity", "of a test", (), None, (), fields, example)
