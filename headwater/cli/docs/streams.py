"""The page of the stream catalog."""

import json
from collections.abc import Iterator

from headwater.cli.docs.markdown import document, paragraphs, table
from headwater.model.stream import CATALOG, Chain, Entity, stream_name

INTRODUCTION = """\
The catalog, as `GET /api/v1/flow/streams` lists it. The topic is the local default; `HEADWATER_STREAM_BINDINGS` names
others, and binds zerolag streams (`<chain>.<entity>.zerolag`): see [stream_bindings.md](../stream_bindings.md). The
source type is the `type` of sources in configurations, where it may be left out. It does not say where the records are:
without bindings, every stream is a Kafka topic."""


def page() -> str:
    """Return the page: the catalog, with an example record of each stream."""
    rows = [
        (chain.name, entity.name, f"`{chain.source_type}`", f"`stream.{stream_name(chain.name, entity.name)}`",
         f"`{entity.event_time_field}`" if entity.event_time_field else "the broker's time")
        for chain, entity in _catalog()
    ]  # fmt: skip
    return document(
        "Streams",
        *paragraphs(INTRODUCTION),
        "",
        *table(("Chain", "Entity", "Source type", "Topic", "Event time"), rows),
        "",
        "## Records",
        "",
        "The fields in bold identify a record within its stream. A type with `?` may be null.",
        *_records(),
    )


def _catalog() -> Iterator[tuple[Chain, Entity]]:
    return ((chain, entity) for chain in CATALOG for entity in chain.entities)


def _records() -> Iterator[str]:
    """Yield the records of each entity once, since the chains of a family share their entities."""
    chains: dict[int, list[str]] = {}
    for chain, entity in _catalog():
        chains.setdefault(id(entity), []).append(chain.name)
    for entity in {id(entity): entity for _, entity in _catalog()}.values():
        yield from ("", f"### {', '.join(chains[id(entity)])}: {entity.name}", "", *paragraphs(entity.description), "")
        yield from table(("Field", "Type", "Meaning"), _fields(entity))
        if entity.price_recipes:
            recipes = ", ".join(f"`{name}`" for name in entity.price_recipes)
            yield from ("", f"Read by the price recipes {recipes}.")
        yield from ("", "```json", json.dumps(entity.example, indent=2, ensure_ascii=False), "```")


def _fields(entity: Entity) -> Iterator[tuple[str, str, str]]:
    keys = {path.partition(".")[0] for path in entity.key}
    for name, member in entity.fields.items():
        name_cell = f"**`{name}`**" if name in keys else f"`{name}`"
        yield name_cell, f"{member.type}{'?' * member.nullable}", member.description
