"""Blocks, receipts and logs as the JSON-RPC interface of Ethereum gives them (Execution API specification).

Quantities and bytes are `0x` hex strings there, and stay so here unless a field says otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

Parties = tuple[str | None, str | None]
"""Sender and receiver of a transaction; the receiver is None when it creates a contract."""


class Log(msgspec.Struct, rename="camel", gc=False):
    """What a contract emitted. topics: 0 to 4 words of 32 bytes. Indexes count from 0 in the block."""

    address: str
    topics: list[str]
    data: str
    block_hash: str
    block_number: str
    transaction_hash: str
    transaction_index: str
    log_index: str


class Receipt(msgspec.Struct, rename="camel"):
    """Of a transaction; only what records need of it."""

    transaction_hash: str
    block_hash: str
    logs: list[Log]
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None


class Header(msgspec.Struct, rename="camel"):
    """A block without its transactions."""

    number: str
    hash: str
    parent_hash: str
    timestamp: str
    logs_bloom: str = ""


class Transaction(msgspec.Struct):
    """Of a block that was asked for with its transactions."""

    hash: str
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None


class FullBlock(Header, kw_only=True):
    """A block with its transactions."""

    transactions: list[Transaction]


class Block(NamedTuple):
    """A block with all its logs in order. timestamp: Unix seconds. parties: by transaction hash."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    logs: Sequence[Log]
    parties: Mapping[str, Parties]


def from_receipts(header: Header, receipts: Sequence[Receipt]) -> Block | None:
    """The block; None when the receipts are not those of this block, or not there yet."""
    parties = {receipt.transaction_hash: (receipt.from_, receipt.to) for receipt in receipts}
    logs = [log for receipt in receipts for log in receipt.logs]
    return _block(header, logs, parties, {receipt.block_hash for receipt in receipts})


def from_logs(full: FullBlock, logs: Sequence[Log]) -> Block | None:
    """The block; None when the logs are not those of this block, or not there yet."""
    parties: dict[str, Parties] = {each.hash: (each.from_, each.to) for each in full.transactions}
    return _block(full, logs, parties, {log.block_hash for log in logs})


def _block(header: Header, logs: Sequence[Log], parties: Mapping[str, Parties], hashes: set[str]) -> Block | None:
    """hashes: of the blocks that the logs are of. A bloom filter with bits tells that a block has logs.

    One without bits proves nothing: Polygon's leaves out the logs of its system transactions, and some of its nodes
    leave out their receipts. So no transactions are counted either.
    """
    if not hashes <= {header.hash} or (not logs and header.logs_bloom.strip("0x")):
        return None
    return Block(int(header.number, 16), header.hash, header.parent_hash, int(header.timestamp, 16), logs, parties)
