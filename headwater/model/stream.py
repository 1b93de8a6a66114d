"""The stream catalog, which is read from the files in model/catalog/.

A chain of a known family needs only an entry in chains.toml. The record fields follow the public schemas of the data
sources; docs/reference/streams.md lists them.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, NamedTuple

STREAM_PARTITIONS = 4

SourceType = Literal["kafka", "pubsub"]

_FILES = resources.files("headwater.model") / "catalog"


class RecordField(NamedTuple):
    """A member of a record. `type` is a type name of JSON Schema."""

    type: str
    nullable: bool
    description: str


@dataclass(frozen=True, slots=True)
class Entity:
    """One kind of record of a chain.

    Attributes:
        key: The members, or dotted paths of members, that identify a record within its stream; empty when none do. A
            retraction has the same key as the retracted record.
        event_time_field: The field with the record's event time, if there is one.
        price_recipes: The names of the price recipes that read this entity.
        lowercase: The members that are stored in lower case, such as addresses and hashes.
        fallback_key: The key of records that lack a member of `key`.
    """

    name: str
    description: str = field(compare=False)
    key: tuple[str, ...]
    event_time_field: str | None
    price_recipes: tuple[str, ...]
    fields: Mapping[str, RecordField] = field(hash=False)
    example: dict[str, Any] = field(hash=False)
    lowercase: tuple[str, ...] = ()
    fallback_key: tuple[str, ...] = ()

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of a record. Records may have additional members."""
        return {
            "type": "object",
            "description": self.description,
            "properties": {name: _property(field) for name, field in self.fields.items()},
            "required": [name for name, field in self.fields.items() if not field.nullable],
        }


def _property(member: RecordField) -> dict[str, Any]:
    type_: Any = [member.type, "null"] if member.nullable else member.type
    return {"type": type_, "description": member.description}


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain and the type of source that its streams come from.

    Attributes:
        chain_id: The EIP-155 id of an EVM chain; None for other chains.
    """

    name: str
    source_type: SourceType
    entities: tuple[Entity, ...]
    chain_id: int | None = None

    def entity(self, name: str) -> Entity | None:
        """Return the entity of this name, or None."""
        return next((e for e in self.entities if e.name == name), None)


def _entity(family: str, name: str, entry: Mapping[str, Any]) -> Entity:
    return Entity(
        name,
        entry["description"],
        tuple(entry.get("key", ())),
        entry.get("event_time_field"),
        tuple(entry.get("price_recipes", ())),
        {member: _field(*definition) for member, definition in entry["fields"].items()},
        json.loads((_FILES / f"{family}_{name}.json").read_text("utf-8")),
        tuple(entry.get("lowercase", ())),
        tuple(entry.get("fallback_key", ())),
    )


def _field(type_: str, description: str) -> RecordField:
    return RecordField(type_.removesuffix("?"), type_.endswith("?"), description)


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((_FILES / f"{name}.toml").read_text("utf-8"))


def _catalog() -> tuple[Chain, ...]:
    chains = _toml("chains")
    families = {
        family: tuple(_entity(family, name, entry) for name, entry in _toml(family).items())
        for family in {entry["family"]: None for entry in chains.values()}
    }
    return tuple(
        Chain(name, entry["source_type"], families[entry["family"]], entry.get("chain_id"))
        for name, entry in chains.items()
    )


CATALOG: tuple[Chain, ...] = _catalog()


def find_chain(name: str) -> Chain | None:
    """Return the chain of this name, or None."""
    return next((c for c in CATALOG if c.name == name), None)


def find_entity(chain: str, entity: str) -> Entity | None:
    """Return the entity of this name of a chain, or None."""
    found = find_chain(chain)
    return None if found is None else found.entity(entity)


def event_time_field(chain: str, entity: str) -> str | None:
    """Return the name of the record field that has the event time.

    Returns None when the records have no such field, or the catalog has no such stream.
    """
    found = find_entity(chain, entity)
    return None if found is None else found.event_time_field


def stream_name(chain: str, entity: str, *, zerolag: bool = False) -> str:
    """Return the name of a stream: `<chain>.<entity>`, with `.zerolag` for the faster one."""
    return f"{chain}.{entity}.zerolag" if zerolag else f"{chain}.{entity}"
