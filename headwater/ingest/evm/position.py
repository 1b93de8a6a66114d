"""The stored position of an EVM ingest."""

from typing import Final

import msgspec

from headwater.errors import IngestStopped
from headwater.ingest.position import read_position

UNKNOWN_HASH: Final = ""
"""The hash of the block before the first read block, which is not known."""


class BlockRef(msgspec.Struct, array_like=True, frozen=True):
    """The number and hash of a block."""

    number: int
    hash: str


class ZerolagBlock(msgspec.Struct, array_like=True, frozen=True):
    """A block whose records are in the zerolag streams.

    Attributes:
        number: The number of the block.
        hash: The hash of the block.
        records: The number of its records.
        written_ms: A lower bound of the time when the records were written.
    """

    number: int
    hash: str
    records: int
    written_ms: int


class Position(msgspec.Struct, frozen=True):
    """The position of an EVM ingest.

    Attributes:
        chain_id: The id of the chain (EIP-155).
        final: The last block whose records are in the final streams.
        recent: The last blocks in the zerolag streams, in order. After the first start it has only the start block,
            which is the block before the first written block, without records.
    """

    chain_id: int
    final: BlockRef | None = None
    recent: tuple[ZerolagBlock, ...] = ()

    def encode(self) -> bytes:
        """Encode the position for storage, in about 100 bytes for each recent block."""
        return msgspec.json.encode(self)


def read_evm_position(stored: bytes, name: str, chain_id: int) -> Position:
    """Decode the stored position of an ingest.

    Raises IngestStopped when an ingest of another chain or another kind stored it.
    """
    position = read_position(stored, Position, name)
    if position.chain_id != chain_id:
        raise IngestStopped(
            f"The ingest {name} reads the chain with id {position.chain_id}, but this node serves chain {chain_id}: "
            "use a node of the same chain, or choose another --name."
        )
    return position
