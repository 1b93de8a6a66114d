"""The stream catalog, which is read from the files in model/catalog/.

A stream has the records of one entity of one chain. Chains of one family (EVM, Solana, Hyperliquid) have the same
entities, so a new chain of a known family needs only an entry in chains.toml. The fields of the records follow the
public schemas of the data sources; docs/reference/streams.md lists them.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, NamedTuple

STREAM_PARTITIONS = 4
"""The number of partitions of each stream topic that Headwater creates. Pub/Sub has no partitions: a source that reads
Pub/Sub assigns each record to one of this many partitions by the record's ordering key."""

SourceType = Literal["kafka", "pubsub"]

_FILES = resources.files("headwater.model") / "catalog"


class RecordField(NamedTuple):
    """A field of a record.

    Attributes:
        type: The type in the words of JSON Schema.
        nullable: Whether the value may be null.
        description: What the value means.
    """

    type: str
    nullable: bool
    description: str


@dataclass(frozen=True, slots=True)
class Entity:
    """A kind of record of a chain.

    Attributes:
        key: The fields, or dotted paths of fields, that identify a record within its stream; empty when none do. A
            retraction has the same key as the retracted record.
        event_time_field: The field with the record's event time, if there is one.
        price_recipes: The recipes of `headwater prices enable` (docs/prices.md) that read this entity, by name.
        lowercase_fields: The fields that are stored in lower case, such as addresses and hashes.
        fallback_keys: The keys for records that lack a field of `key`. The key of such a record is the first of them
            whose fields are all in the record.
    """

    name: str
    description: str = field(compare=False)
    key: tuple[str, ...]
    event_time_field: str | None
    price_recipes: tuple[str, ...]
    fields: Mapping[str, RecordField] = field(hash=False)
    example: dict[str, Any] = field(hash=False)
    lowercase_fields: tuple[str, ...] = ()
    fallback_keys: tuple[tuple[str, ...], ...] = ()

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of a record. Records may have additional fields."""
        return {
            "type": "object",
            "description": self.description,
            "properties": {name: _property(field) for name, field in self.fields.items()},
            "required": [name for name, field in self.fields.items() if not field.nullable],
        }


def _property(field_: RecordField) -> dict[str, Any]:
    type_: Any = [field_.type, "null"] if field_.nullable else field_.type
    return {"type": type_, "description": field_.description}


@dataclass(frozen=True, slots=True)
class Chain:
    """A blockchain, with its streams.

    Attributes:
        source_type: The value of `source.type` for this chain, a label. The stream bindings select the source.
        entities: The kinds of records of the chain.
        chain_id: The EIP-155 id of an EVM chain; None for other chains.
    """

    name: str
    source_type: SourceType
    entities: tuple[Entity, ...]
    chain_id: int | None = None

    def entity(self, name: str) -> Entity | None:
        """Return the entity of this name, or None."""
        return next((entity for entity in self.entities if entity.name == name), None)


def _entity(family: str, name: str, entry: Mapping[str, Any]) -> Entity:
    return Entity(
        name=name,
        description=entry["description"],
        key=tuple(entry.get("key", ())),
        event_time_field=entry.get("event_time_field"),
        price_recipes=tuple(entry.get("price_recipes", ())),
        fields={field_name: _field(*definition) for field_name, definition in entry["fields"].items()},
        example=json.loads((_FILES / f"{family}_{name}.json").read_text("utf-8")),
        lowercase_fields=tuple(entry.get("lowercase_fields", ())),
        fallback_keys=tuple(map(tuple, entry.get("fallback_keys", ()))),
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
    return next((chain for chain in CATALOG if chain.name == name), None)


def find_entity(chain_name: str, entity_name: str) -> Entity | None:
    """Return the entity of this name of the chain of this name, or None."""
    chain = find_chain(chain_name)
    return None if chain is None else chain.entity(entity_name)


def event_time_field(chain_name: str, entity_name: str) -> str | None:
    """Return the name of the record field that has the event time.

    Returns None when the records have no such field, or the catalog has no such stream.
    """
    entity = find_entity(chain_name, entity_name)
    return None if entity is None else entity.event_time_field


def stream_name(chain: str, entity: str, *, zerolag: bool = False) -> str:
    """Return the name of a stream: `<chain>.<entity>`, or `<chain>.<entity>.zerolag`.

    The zerolag stream of an entity is faster: it has the records of the chain's newest blocks, and it may retract
    records when the chain is reorganised.
    """
    return f"{chain}.{entity}.zerolag" if zerolag else f"{chain}.{entity}"
