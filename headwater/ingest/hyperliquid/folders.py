"""The folders of a node, and what each of them tells."""

from typing import Final, Literal, NamedTuple

from headwater.ingest.hyperliquid.options import Entity

Kind = Literal["fills", "trades", "orders", "misc", "blocks"]
Form = Literal["block", "streaming", "event"]
"""What a line is: all events of a block, some of them with their block, or one event."""


class Folder(NamedTuple):
    """A folder below the node's data."""

    name: str
    kind: Kind
    form: Form


def _forms(kind: Kind, name: str) -> tuple[Folder, ...]:
    return (
        Folder(f"{name}_by_block", kind, "block"),
        Folder(f"{name}_streaming", kind, "streaming"),
        Folder(name, kind, "event"),
    )


FOLDERS: Final[tuple[Folder, ...]] = (
    *_forms("fills", "node_fills"),
    *_forms("trades", "node_trades"),
    *_forms("orders", "node_order_statuses"),
    *_forms("misc", "misc_events"),
    *_forms("misc", "node_misc_events"),
    Folder("replica_cmds", "blocks", "block"),
)
"""Of each kind the preferred folder first: events that stand in several of them are told once."""

TELLS: Final[dict[Kind, tuple[Entity, ...]]] = {
    "fills": ("fill", "trade"),
    "trades": ("trade",),
    "orders": ("order",),
    "misc": ("misc_event",),
    "blocks": ("block",),
}


def folders_for(entities: frozenset[Entity]) -> dict[Kind, list[Folder]]:
    """The folders to read, by kind."""
    found: dict[Kind, list[Folder]] = {}
    for folder in FOLDERS:
        if entities & set(TELLS[folder.kind]):
            found.setdefault(folder.kind, []).append(folder)
    return found
