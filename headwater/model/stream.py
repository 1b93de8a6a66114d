"""The stream catalog: one entry per (chain, entity). Adding a chain is one entry in CATALOG.

Record fields follow the public schemas of the data sources; see docs/reference/streams.md.
"""

from dataclasses import dataclass, field
from typing import Any

STREAM_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Entity:
    """One kind of record of a chain. event_time names the field that carries the record's own time."""

    name: str
    event_time: str | None
    example: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain and the type of source that its streams come from."""

    name: str
    source_type: str
    entities: tuple[Entity, ...]

    def entity(self, name: str) -> Entity | None:
        """The entity of this name, or None."""
        return next((e for e in self.entities if e.name == name), None)
