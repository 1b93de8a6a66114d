"""Converts the logs of a block to records of the five streams.

docs/reference/streams.md has examples. The last member of a zerolag record is `"removed":false`. The retraction is the
same record with `"removed":true`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from headwater.ingest.evm.blocks import Block, Log, TransactionDetails
from headwater.ingest.evm.decode import Decoded, Decoder
from headwater.ingest.evm.token_transfers import TOPICS, Transfer, transfers
from headwater.ingest.evm.values import Value, amount_text
from headwater.model.listed_token import TokenListEntry
from headwater.model.outputs import MAX_OUTPUT_BYTES

ENTITIES: Final = ("log", "decoded_log", "erc20_token_transfer", "erc721_token_transfer", "erc1155_token_transfer")
NOT_REMOVED_SUFFIX: Final = b',"removed":false}'
REMOVED_SUFFIX: Final = b',"removed":true}'
_NO_DETAILS: Final = TransactionDetails()


class EncodedRecord(NamedTuple):
    """A record as JSON.

    The key is `<chain>:<transaction_hash>:<log_index>`, and has the suffix `:<array_index>` for ERC-1155.
    """

    entity: str
    key: bytes
    value: bytes


class _Log(msgspec.Struct, gc=False):
    address: str
    topics: list[str]
    topic0: str | None
    topic1: str | None
    topic2: str | None
    topic3: str | None
    data: str
    transaction_hash: str
    transaction_index: int
    log_index: int
    block_number: int
    block_hash: str
    block_timestamp: str
    from_address: str | None
    to_address: str | None
    receipt_status: int | None
    receipt_gas_used: int | None
    receipt_effective_gas_price: str | None
    transaction_value: str | None
    removed: bool


class _DecodedLog(msgspec.Struct, gc=False):
    address: str
    name: str
    signature: str
    params: Mapping[str, Value]
    params_keys_mapping: list[str]
    data: str
    topic0: str | None
    topic1: str | None
    topic2: str | None
    topic3: str | None
    transaction_hash: str
    transaction_index: int
    log_index: int
    block_number: int
    block_hash: str
    block_timestamp: str
    transaction_from_address: str | None
    transaction_to_address: str | None
    receipt_status: int | None
    receipt_gas_used: int | None
    receipt_effective_gas_price: str | None
    transaction_value: str | None


class _Erc20(msgspec.Struct, gc=False):
    from_address: str
    to_address: str
    token_address: str
    token_name: None
    token_symbol: str | None
    raw_amount: float
    raw_amount_str: str
    amount: float | None
    amount_str: str | None
    usd_amount: None
    usd_exchange_rate: None
    transaction_from_address: str | None
    transaction_to_address: str | None
    receipt_status: int | None
    receipt_gas_used: int | None
    receipt_effective_gas_price: str | None
    transaction_value: str | None
    transaction_hash: str
    transaction_index: int
    log_index: int
    block_number: int
    block_hash: str
    block_timestamp: str
    unique_id: str


class _Erc721(msgspec.Struct, gc=False):
    from_address: str
    to_address: str
    token_address: str
    token_name: None
    token_symbol: str | None
    token_id: str
    raw_amount: float
    raw_amount_str: str
    amount: float
    amount_str: str
    transaction_from_address: str | None
    transaction_to_address: str | None
    receipt_status: int | None
    receipt_gas_used: int | None
    receipt_effective_gas_price: str | None
    transaction_value: str | None
    transaction_hash: str
    transaction_index: int
    log_index: int
    block_number: int
    block_hash: str
    block_timestamp: str
    unique_id: str


class _Erc1155(msgspec.Struct, gc=False):
    event_type: str | None
    operator: str | None
    array_index: int | None
    from_address: str
    to_address: str
    token_address: str
    token_name: None
    token_symbol: str | None
    token_id: str
    raw_amount: float
    raw_amount_str: str
    amount: float
    amount_str: str
    transaction_from_address: str | None
    transaction_to_address: str | None
    receipt_status: int | None
    receipt_gas_used: int | None
    receipt_effective_gas_price: str | None
    transaction_value: str | None
    transaction_hash: str
    transaction_index: int
    log_index: int
    block_number: int
    block_hash: str
    block_timestamp: str
    unique_id: str


_Transaction = tuple[str | None, str | None, int | None, int | None, str | None, str | None]
"""The sender, the receiver and the details of a transaction, which all records contain."""
_NO_TRANSACTION: Final[_Transaction] = (None, None, *_NO_DETAILS)
_TOPIC_PADDING: Final = tuple((None,) * (4 - count) for count in range(5))
"""The nulls that pad the topics of a log to four, by the number of its topics."""


class _LogPosition(NamedTuple):
    """The position of a log on its chain."""

    transaction_hash: str
    transaction_index: int
    log_index: int
    block_number: int
    block_hash: str
    block_timestamp: str


# Aliases without a signature: the structs are built with positional arguments, because keyword arguments take a third
# more time.
_make_log: Callable[..., _Log] = _Log
_make_decoded: Callable[..., _DecodedLog] = _DecodedLog
_make_erc20: Callable[..., _Erc20] = _Erc20
_make_erc721: Callable[..., _Erc721] = _Erc721
_make_erc1155: Callable[..., _Erc1155] = _Erc1155


class Converter:
    """Converts the logs of blocks to records.

    Args:
        chain: The name of the chain, which is the prefix of keys.
        decoder: Decodes logs; None to omit `decoded_log`.
        tokens: The known tokens, by address.
    """

    def __init__(self, chain: str, decoder: Decoder | None, tokens: Mapping[str, TokenListEntry]) -> None:
        self._chain = chain
        self._decoder = decoder
        self._tokens = tokens
        self._encode = msgspec.json.Encoder().encode

    def convert(self, block: Block, counts: Counter[str]) -> list[EncodedRecord]:
        """Convert a block to records in the order of its logs.

        Increases the counts `undecoded` and `malformed`.
        """
        time = block_time(block.timestamp)
        transactions = _transactions(block)
        records: list[EncodedRecord] = []
        for log in block.logs:
            position = _LogPosition(
                log.transaction_hash,
                int(log.transaction_index, 16),
                int(log.log_index, 16),
                block.number,
                block.hash,
                time,
            )
            transaction = transactions.get(log.transaction_hash, _NO_TRANSACTION)
            key = f"{self._chain}:{log.transaction_hash}:{position.log_index}"
            records += self._records(log, position, transaction, key, counts)
        return records

    def _records(
        self, log: Log, position: _LogPosition, transaction: _Transaction, key: str, counts: Counter[str]
    ) -> Iterator[EncodedRecord]:
        topics = (*log.topics, *_TOPIC_PADDING[len(log.topics)])
        encode, own_key = self._encode, key.encode()
        yield EncodedRecord(
            "log",
            own_key,
            encode(_make_log(log.address, log.topics, *topics, log.data, *position, *transaction, False)),
        )
        if self._decoder is not None:
            decoded = self._decoder.decode(log)
            value = encode(_decoded_log_struct(log, decoded, topics, position, transaction)) if decoded else b""
            if 0 < len(value) <= MAX_OUTPUT_BYTES:
                yield EncodedRecord("decoded_log", own_key, value)
            else:
                counts["undecoded"] += 1
        if topics[0] in TOPICS:
            try:
                for transfer in transfers(log):
                    yield self._transfer_record(log, transfer, position, transaction, key)
            except ValueError:
                counts["malformed"] += 1

    def _transfer_record(
        self, log: Log, transfer: Transfer, position: _LogPosition, transaction: _Transaction, key: str
    ) -> EncodedRecord:
        token = self._tokens.get(log.address)
        if transfer.array_index is not None:
            key = f"{key}:{transfer.array_index}"
        return EncodedRecord(
            transfer.entity,
            key.encode(),
            self._encode(_transfer_struct(log.address, transfer, token, position, transaction)),
        )


def _transactions(block: Block) -> dict[str, _Transaction]:
    """Return the block's transactions by their hash."""
    return {
        hash_: (sender, receiver, *block.details.get(hash_, _NO_DETAILS))
        for hash_, (sender, receiver) in block.parties.items()
    }


def _decoded_log_struct(
    log: Log, decoded: Decoded, topics: tuple[str | None, ...], position: _LogPosition, transaction: _Transaction
) -> _DecodedLog:
    event = decoded.event
    return _make_decoded(
        log.address,
        event.name,
        event.signature,
        decoded.params,
        decoded.names,
        log.data,
        *topics,
        *position,
        *transaction,
    )


def _transfer_struct(
    address: str, transfer: Transfer, token: TokenListEntry | None, position: _LogPosition, transaction: _Transaction
) -> _Erc20 | _Erc721 | _Erc1155:
    _, from_address, to_address, token_id, raw, event_type, operator, array_index = transfer
    symbol = token.symbol.lower() if token else None
    unique_id = f"{position.transaction_hash}-{position.log_index}"
    common = (from_address, to_address, address, None, symbol)
    raw_text = str(raw)
    if token_id is None:
        text = None if token is None else amount_text(raw, token.decimals)
        amount = None if text is None else float(text)
        return _make_erc20(*common, float(raw), raw_text, amount, text, None, None, *transaction, *position, unique_id)
    amounts = (str(token_id), float(raw), raw_text, float(raw), raw_text)
    if array_index is None:
        return _make_erc721(*common, *amounts, *transaction, *position, unique_id)
    unique_id = f"{unique_id}-{array_index}"
    return _make_erc1155(event_type, operator, array_index, *common, *amounts, *transaction, *position, unique_id)


def block_time(timestamp: int) -> str:
    """Convert Unix seconds to the text in records."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_zerolag(record: EncodedRecord) -> EncodedRecord:
    """Return the record with the member `removed` of the zerolag stream."""
    return (
        record
        if record.value.endswith(NOT_REMOVED_SUFFIX)
        else record._replace(value=record.value[:-1] + NOT_REMOVED_SUFFIX)
    )


def retraction(value: bytes) -> bytes:
    """Return the retraction of a zerolag record."""
    assert value.endswith(NOT_REMOVED_SUFFIX)
    return value[: -len(NOT_REMOVED_SUFFIX)] + REMOVED_SUFFIX
