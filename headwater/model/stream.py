"""The stream catalog: one entry per (chain, entity). Adding a chain is one entry in CATALOG.

Record fields follow the public schemas of the data sources; see docs/reference/streams.md. The example records are the
JSON files in model/catalog/.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

STREAM_PARTITIONS = 4

SourceType = Literal["kafka", "pubsub"]


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
    source_type: SourceType
    entities: tuple[Entity, ...]

    def entity(self, name: str) -> Entity | None:
        """The entity of this name, or None."""
        return next((e for e in self.entities if e.name == name), None)


def _entity(family: str, name: str, event_time: str) -> Entity:
    file = resources.files("headwater.model") / "catalog" / f"{family}_{name}.json"
    return Entity(name, event_time, json.loads(file.read_text("utf-8")))


_EVM = tuple(
    _entity("evm", name, "block_timestamp")
    for name in ("log", "decoded_log", "erc20_token_transfer", "erc721_token_transfer", "erc1155_token_transfer")
)

CATALOG: tuple[Chain, ...] = (
    Chain("polygon", "pubsub", _EVM),
    Chain("base", "pubsub", _EVM),
    Chain("solana", "pubsub", (_entity("solana", "nonvoting_transaction", "block_timestamp"),)),
    Chain(
        "hyperliquid",
        "kafka",
        (
            _entity("hyperliquid", "block", "blockTime"),
            _entity("hyperliquid", "trade", "time"),
            _entity("hyperliquid", "fill", "time"),
            _entity("hyperliquid", "order", "time"),
            _entity("hyperliquid", "misc_event", "time"),
        ),
    ),
)


def find_chain(name: str) -> Chain | None:
    """The chain of this name, or None."""
    return next((c for c in CATALOG if c.name == name), None)


def event_time(chain: str, entity: str) -> str | None:
    """The member of a stream's records that has their own time; None when there is none, or no such stream."""
    found = find_chain(chain)
    known = found.entity(entity) if found is not None else None
    return known.event_time if known is not None else None


def stream_name(chain: str, entity: str, *, zerolag: bool = False) -> str:
    """The name of a stream in settings: `<chain>.<entity>`, with `.zerolag` for the faster feed."""
    return f"{chain}.{entity}.zerolag" if zerolag else f"{chain}.{entity}"


@dataclass(frozen=True, slots=True)
class Bindings:
    """Which Kafka topic carries which stream.

    topics: stream name → topic. A stream of the catalog that is not named there is bound to `stream.<name>`; a zerolag
    feed is bound only when it is named.
    """

    topics: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def topic(self, chain: str, entity: str, *, zerolag: bool = False) -> str | None:
        """The topic of a stream, or None when the stream has no binding or is not in the catalog."""
        found = find_chain(chain)
        if found is None or found.entity(entity) is None:
            return None
        name = stream_name(chain, entity, zerolag=zerolag)
        return self.topics.get(name, None if zerolag else f"stream.{name}")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All bound streams as (stream name, topic), catalog order."""
        for chain in CATALOG:
            for entity in chain.entities:
                for zerolag in (False, True):
                    if topic := self.topic(chain.name, entity.name, zerolag=zerolag):
                        yield stream_name(chain.name, entity.name, zerolag=zerolag), topic
