"""Entities for tests of code that reads their fields."""

from typing import Any

from headwater.model.stream import Entity, RecordField
from headwater.record_files.formats.text_columns import type_of


def like(**example: Any) -> Entity:
    """Return an entity with this example record.

    Fields that are null in the example are strings.
    """
    fields = {name: RecordField(type_of(value) or "string", True, name) for name, value in example.items()}
    return Entity("entity", "of a test", (), None, (), fields, example)
