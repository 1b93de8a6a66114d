"""The structures of blocks, receipts and logs in Ethereum's JSON-RPC interface.

The Execution API specifies this interface. Quantities and bytes are `0x` hex strings, unless a field says otherwise.
Nodes may send hex in any case; the structures convert hashes, addresses and bytes to lower case.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from headwater.ingest.jsonrpc import MAX_QUOTED_CHARS

SenderAndReceiver = tuple[str | None, str | None]
"""The sender and receiver of a transaction. The receiver is None if the transaction creates a contract."""
_HASH: Final = re.compile(r"0x[0-9a-f]{64}")
_LOG_BYTES: Final = re.compile(r"0x[0-9a-f]{40}(?:0x[0-9a-f]{64})*0x[0-9a-f]*")
"""The concatenated address, topics and data of a log."""
_SMALL_QUANTITY: Final = re.compile(r"0x0*[0-9a-fA-F]{1,15}")
STATE_SYNC_PARTIES: Final[SenderAndReceiver] = ("0x" + "0" * 40, "0x" + "0" * 40)
"""The sender and receiver of Polygon's state-sync transactions."""
_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_MAX_NUMBER: Final = (1 << 60) - 1
_MAX_TIMESTAMP: Final = 253_402_300_799
"""The last second of the year 9999."""


class TransactionDetails(NamedTuple):
    """Members of records that describe the transaction of the record.

    A value is None when it was not requested, or when the node does not have it.

    Attributes:
        status: 1 for success, 0 for failure; None also before the Byzantium fork.
        gas_used: The used units of gas.
        effective_gas_price: The price of a unit of gas in wei, in decimal.
        value: The transferred wei, in decimal.
    """

    status: int | None = None
    gas_used: int | None = None
    effective_gas_price: str | None = None
    value: str | None = None


class Log(msgspec.Struct, rename="camel", gc=False):
    """A log that a contract emitted, with at most 4 topics of 32 bytes.

    The indexes of the log and of its transaction count from 0 in the block.
    """

    address: str
    topics: Annotated[list[str], msgspec.Meta(max_length=4)]
    data: str
    block_hash: str
    block_number: str
    transaction_hash: str
    transaction_index: str
    log_index: str

    def __post_init__(self) -> None:
        self.address = self.address.lower()
        self.topics = [topic.lower() for topic in self.topics]
        self.data = self.data.lower()
        self.block_hash = self.block_hash.lower()
        self.transaction_hash = self.transaction_hash.lower()
        if len(self.data) % 2 or not _LOG_BYTES.fullmatch(self.address + "".join(self.topics) + self.data):
            raise ValueError("the address, topics or data of a log are not valid hex")


class Receipt(msgspec.Struct, rename="camel"):
    """The members of a transaction's receipt that records need, and its bloom filter."""

    transaction_hash: str
    block_hash: str
    logs: list[Log]
    logs_bloom: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None
    status: Any = None
    gas_used: Any = None
    effective_gas_price: Any = None

    def __post_init__(self) -> None:
        self.transaction_hash = self.transaction_hash.lower()
        self.block_hash = self.block_hash.lower()
        self.from_, self.to = _lower(self.from_), _lower(self.to)


class Header(msgspec.Struct, rename="camel"):
    """A block without its transactions. `logs_bloom` is the bloom filter of the block's logs."""

    number: str
    hash: str
    parent_hash: str
    timestamp: str
    logs_bloom: str | None = None

    def __post_init__(self) -> None:
        self.hash, self.parent_hash = self.hash.lower(), self.parent_hash.lower()
        if not (_HASH.fullmatch(self.hash) and _HASH.fullmatch(self.parent_hash)):
            raise ValueError("the hash of a block or of its parent is not 32 bytes in hex")


class BlockWithHashes(Header, kw_only=True):
    """A block with the hashes of its transactions."""

    transactions: list[str] = []

    def __post_init__(self) -> None:
        super().__post_init__()
        self.transactions = [hash_.lower() for hash_ in self.transactions]


class Transaction(msgspec.Struct):
    """A transaction of a block."""

    hash: str
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None
    value: Any = None

    def __post_init__(self) -> None:
        self.hash, self.from_, self.to = self.hash.lower(), _lower(self.from_), _lower(self.to)


class BlockWithTransactions(Header, kw_only=True):
    """A block with its transactions."""

    transactions: list[Transaction]


class Block(NamedTuple):
    """A block with its logs in order.

    Attributes:
        number: The number of the block.
        hash: The hash of the block.
        parent_hash: The hash of the previous block.
        timestamp: The time of the block, in Unix seconds.
        logs: The logs of the block.
        parties: The sender and receiver of each transaction, by transaction hash.
        details: The details of each transaction, by transaction hash.
    """

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    logs: Sequence[Log]
    parties: Mapping[str, SenderAndReceiver]
    details: Mapping[str, TransactionDetails] = MappingProxyType({})


def from_receipts(header: Header, receipts: Sequence[Receipt]) -> Block | None:
    """Build a block; None if a receipt or log belongs to another block."""
    parties = {receipt.transaction_hash: (receipt.from_, receipt.to) for receipt in receipts}
    logs = [log for receipt in receipts for log in receipt.logs]
    details = {receipt.transaction_hash: _receipt_details(receipt) for receipt in receipts}
    return _block(header, logs, parties, details, {receipt.block_hash for receipt in receipts})


def from_logs(full: BlockWithTransactions, logs: Sequence[Log]) -> Block | None:
    """Build a block; None if a log belongs to another block."""
    transactions = full.transactions
    parties: dict[str, SenderAndReceiver] = {tx.hash: (tx.from_, tx.to) for tx in transactions}
    details = {tx.hash: TransactionDetails(value=_decimal(tx.value)) for tx in transactions}
    return _block(full, logs, parties, details, set())


def merged_block(first: Block, second: Block) -> Block:
    """Merge two responses about one block.

    For a state-sync transaction the longer list of logs is used, because some nodes number these logs differently in
    each method.
    """
    hashes = first.details.keys() | second.details.keys()
    details = {hash_: _merged_details(first.details.get(hash_), second.details.get(hash_)) for hash_ in hashes}
    parties = {**second.parties, **first.parties}
    state_syncs = {hash_ for hash_, sender_and_receiver in parties.items() if sender_and_receiver == STATE_SYNC_PARTIES}
    state_sync_logs = max(
        ([log for log in block.logs if log.transaction_hash in state_syncs] for block in (first, second)), key=len
    )
    other_logs = [log for log in (*first.logs, *second.logs) if log.transaction_hash not in state_syncs]
    return first._replace(logs=in_order([*other_logs, *state_sync_logs]), parties=parties, details=details)


def _merged_details(*responses: TransactionDetails | None) -> TransactionDetails:
    """Merge the details of two responses; the first response takes precedence."""
    merged: dict[str, Any] = {}
    for details in responses:
        members = details._asdict() if details else {}
        merged = {name: value for name, value in members.items() if value is not None} | merged
    return TransactionDetails(**merged)


def in_order(logs: Sequence[Log]) -> list[Log]:
    """Return the logs without duplicates, in the order of the block.

    Raises ValueError for an invalid index.
    """
    unique = {(log.transaction_hash, log.log_index): log for log in logs}
    return sorted(
        unique.values(), key=lambda log: (_parse_quantity(log.transaction_index), _parse_quantity(log.log_index))
    )


def _parse_quantity(quantity: str, maximum: int = _MAX_NUMBER) -> int:
    """Convert a hex quantity that goes into a record or a position. Raises ValueError."""
    number = int(quantity, 16)
    if not 0 <= number <= maximum:
        raise ValueError(f"the number {quantity[:MAX_QUOTED_CHARS]!r} is out of range")
    return number


def _lower(text: str | None) -> str | None:
    return text.lower() if text else text


def _receipt_details(receipt: Receipt) -> TransactionDetails:
    price = _decimal(receipt.effective_gas_price)
    return TransactionDetails(_integer(receipt.status), _integer(receipt.gas_used), price)


def _integer(value: Any) -> int | None:
    """Convert a hex quantity of at most 60 bits, which JSON parsers can hold.

    Returns None for any other value. The value is optional in records, so an invalid value counts as missing.
    """
    return int(value, 16) if isinstance(value, str) and _SMALL_QUANTITY.fullmatch(value) else None


def _decimal(value: Any) -> str | None:
    """Convert a hex quantity of at most 256 bits to decimal; None for any other value."""
    return str(int(value, 16)) if isinstance(value, str) and _QUANTITY.fullmatch(value) else None


def _block(
    header: Header,
    logs: Sequence[Log],
    parties: Mapping[str, SenderAndReceiver],
    details: Mapping[str, TransactionDetails],
    receipt_block_hashes: set[str],
) -> Block | None:
    """Build a block; None if a log or receipt belongs to another block.

    Raises ValueError for an invalid quantity.
    """
    if not receipt_block_hashes.union(log.block_hash for log in logs) <= {header.hash}:
        return None
    number, timestamp = _parse_quantity(header.number), _parse_quantity(header.timestamp, _MAX_TIMESTAMP)
    return Block(number, header.hash, header.parent_hash, timestamp, in_order(logs), parties, details)
