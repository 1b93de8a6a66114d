"""Blocks, receipts and logs as the JSON-RPC interface of Ethereum gives them (Execution API specification).

Quantities and bytes are `0x` hex strings there, and stay so here unless a field says otherwise. Nodes may write hex in
any case; hashes, addresses and bytes have it in lower case here.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from headwater.ingest.jsonrpc import SHOWN_CHARS

Parties = tuple[str | None, str | None]
"""Sender and receiver of a transaction; the receiver is None when it creates a contract."""
_HASH: Final = re.compile(r"0x[0-9a-f]{64}")
_LOG_BYTES: Final = re.compile(r"0x[0-9a-f]{40}(?:0x[0-9a-f]{64})*0x[0-9a-f]*")
"""Address, topics and data of a log, one behind the other."""
_SMALL_QUANTITY: Final = re.compile(r"0x0*[0-9a-fA-F]{1,15}")
SYSTEM_PARTIES: Final[Parties] = ("0x" + "0" * 40, "0x" + "0" * 40)
"""Sender and receiver of Polygon's state-sync transactions."""
_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_MAX_NUMBER: Final = (1 << 60) - 1
_MAX_TIMESTAMP: Final = 253_402_300_799
"""The last second of the year 9999."""


class TransactionDetails(NamedTuple):
    """Members of records about their transaction. None: the node was not asked for it, or does not have it.

    Attributes:
        status: 1 for success, 0 for failure; None before Byzantium too.
        gas_used: In units of gas.
        effective_gas_price: Wei per unit of gas, in decimal.
        value: Wei that the sender gave to the receiver, in decimal.
    """

    status: int | None = None
    gas_used: int | None = None
    effective_gas_price: str | None = None
    value: str | None = None


class Log(msgspec.Struct, rename="camel", gc=False):
    """What a contract emitted. topics: 0 to 4 words of 32 bytes. Indexes count from 0 in the block."""

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
            raise ValueError("a log's address, topics or data are no bytes in hex")


class Receipt(msgspec.Struct, rename="camel"):
    """The receipt of a transaction: the members that records need, and the bloom filter of its logs."""

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
    """A block without its transactions. logs_bloom: the bloom filter of its logs."""

    number: str
    hash: str
    parent_hash: str
    timestamp: str
    logs_bloom: str | None = None

    def __post_init__(self) -> None:
        self.hash, self.parent_hash = self.hash.lower(), self.parent_hash.lower()
        if not (_HASH.fullmatch(self.hash) and _HASH.fullmatch(self.parent_hash)):
            raise ValueError("the hash of a block or of its parent is no 32 bytes in hex")


class HashesBlock(Header, kw_only=True):
    """A block with the hashes of its transactions."""

    transactions: list[str] = []

    def __post_init__(self) -> None:
        super().__post_init__()
        self.transactions = [hash_.lower() for hash_ in self.transactions]


class Transaction(msgspec.Struct):
    """A transaction of a block that was asked for with its transactions."""

    hash: str
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None
    value: Any = None

    def __post_init__(self) -> None:
        self.hash, self.from_, self.to = self.hash.lower(), _lower(self.from_), _lower(self.to)


class FullBlock(Header, kw_only=True):
    """A block with its transactions."""

    transactions: list[Transaction]


class Block(NamedTuple):
    """A block with its logs in order. timestamp: Unix seconds. parties and details: by transaction hash."""

    number: int
    hash: str
    parent_hash: str
    timestamp: int
    logs: Sequence[Log]
    parties: Mapping[str, Parties]
    details: Mapping[str, TransactionDetails] = MappingProxyType({})


def from_receipts(header: Header, receipts: Sequence[Receipt]) -> Block | None:
    """The block; None when a receipt or log is of another block."""
    parties = {receipt.transaction_hash: (receipt.from_, receipt.to) for receipt in receipts}
    logs = [log for receipt in receipts for log in receipt.logs]
    details = {receipt.transaction_hash: _receipt_details(receipt) for receipt in receipts}
    return _block(header, logs, parties, details, {receipt.block_hash for receipt in receipts})


def from_logs(full: FullBlock, logs: Sequence[Log]) -> Block | None:
    """The block; None when a log is of another block."""
    parties: dict[str, Parties] = {each.hash: (each.from_, each.to) for each in full.transactions}
    details = {each.hash: TransactionDetails(value=_decimal(each.value)) for each in full.transactions}
    return _block(full, logs, parties, details, set())


def united(first: Block, second: Block) -> Block:
    """The logs and details of two responses about one block.

    Of a state-sync transaction the longer list of logs is taken, since some nodes number them in two ways.
    """
    hashes = first.details.keys() | second.details.keys()
    details = {hash_: _known_details(first.details.get(hash_), second.details.get(hash_)) for hash_ in hashes}
    parties = {**second.parties, **first.parties}
    system = {hash_ for hash_, of in parties.items() if of == SYSTEM_PARTIES}
    system_logs = max(
        ([log for log in each.logs if log.transaction_hash in system] for each in (first, second)), key=len
    )
    others = [log for log in (*first.logs, *second.logs) if log.transaction_hash not in system]
    return first._replace(logs=in_order([*others, *system_logs]), parties=parties, details=details)


def _known_details(*answers: TransactionDetails | None) -> TransactionDetails:
    """The details that any of the responses has; the first response wins."""
    known: dict[str, Any] = {}
    for answer in answers:
        known = {
            name: value for name, value in (answer._asdict() if answer else {}).items() if value is not None
        } | known
    return TransactionDetails(**known)


def in_order(logs: Sequence[Log]) -> list[Log]:
    """Logs by their position in the block, each once. Raises ValueError when an index is no number."""
    unique = {(log.transaction_hash, log.log_index): log for log in logs}
    return sorted(unique.values(), key=lambda log: (_number(log.transaction_index), _number(log.log_index)))


def _number(quantity: str, most: int = _MAX_NUMBER) -> int:
    """The number of a hex quantity that a record or a position has. Raises ValueError."""
    number = int(quantity, 16)
    if not 0 <= number <= most:
        raise ValueError(f"the number {quantity[:SHOWN_CHARS]!r} is out of range")
    return number


def _lower(text: str | None) -> str | None:
    return text.lower() if text else text


def _receipt_details(receipt: Receipt) -> TransactionDetails:
    price = _decimal(receipt.effective_gas_price)
    return TransactionDetails(_integer(receipt.status), _integer(receipt.gas_used), price)


def _integer(value: Any) -> int | None:
    """The number of a hex quantity of at most 60 bits, which JSON readers hold; None for anything else.

    No record depends on it, so what a node says otherwise counts as not given.
    """
    return int(value, 16) if isinstance(value, str) and _SMALL_QUANTITY.fullmatch(value) else None


def _decimal(value: Any) -> str | None:
    """The decimal text of a hex quantity of at most 256 bits; None for anything else."""
    return str(int(value, 16)) if isinstance(value, str) and _QUANTITY.fullmatch(value) else None


def _block(
    header: Header,
    logs: Sequence[Log],
    parties: Mapping[str, Parties],
    details: Mapping[str, TransactionDetails],
    hashes: set[str],
) -> Block | None:
    """The block; None when a log or receipt is of another block. Raises ValueError when a quantity is no number.

    hashes: The block hashes of the receipts.
    """
    if not hashes.union(log.block_hash for log in logs) <= {header.hash}:
        return None
    number, timestamp = _number(header.number), _number(header.timestamp, _MAX_TIMESTAMP)
    return Block(number, header.hash, header.parent_hash, timestamp, in_order(logs), parties, details)
