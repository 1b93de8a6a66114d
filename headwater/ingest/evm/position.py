"""How far an EVM ingest is."""

from typing import Final

import msgspec

from headwater.errors import IngestStopped
from headwater.ingest.position import read_position

UNKNOWN: Final = ""
"""The hash of a block before the first one: nothing is known of it."""


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """A block."""

    number: int
    hash: str


class Recent(msgspec.Struct, array_like=True, frozen=True):
    """A block whose records are in the zerolag streams. records: how many; written_ms: not before this time."""

    number: int
    hash: str
    records: int
    written_ms: int


class Position(msgspec.Struct, frozen=True):
    """final: the last block in the normal streams. recent: the last blocks in the zerolag streams, in order; at first
    there is one before them, with no records.
    """

    chain_id: int
    final: Mark | None = None
    recent: tuple[Recent, ...] = ()

    def encode(self) -> bytes:
        """As it is stored; about 85 bytes for each recent block."""
        return msgspec.json.encode(self)


def decode(text: bytes, name: str, chain_id: int) -> Position:
    """What `encode` made. Raises IngestStopped when it is of another chain, or of another kind of ingest."""
    position = read_position(text, Position, name)
    if position.chain_id != chain_id:
        raise IngestStopped(
            f"The ingest {name} reads the chain with the id {position.chain_id}, and this node is of {chain_id}: "
            "use a node of the same chain, or choose another name."
        )
    return position
