"""Pure functions that check whether a node has sent all logs of a block.

The header of a block has a bloom filter of the block's logs, and the logs have consecutive indexes. On Polygon a block
may end with a state-sync transaction. The filter of the header does not contain the logs of this transaction, and some
nodes omit these logs in one of the methods.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Final, Literal, NamedTuple

from eth_hash.auto import keccak

from headwater.ingest.evm.blocks import STATE_SYNC_PARTIES, Block, Log, Receipt, merged_block
from headwater.ingest.evm.bloom import bloom_of, missing_bits

Method = Literal["receipts", "logs"]
METHODS: Final[tuple[Method, Method]] = ("receipts", "logs")

SPRINTS: Final[Mapping[int, int]] = {137: 16, 80002: 16}
"""The number of blocks of a sprint, by chain id (Polygon's client Bor).

State sync happens in the first block of a sprint. Before the Delhi fork a sprint had 64 blocks.
"""


def state_sync_hash(number: int, block_hash: str) -> str:
    """Return the hash that Bor derives for a block's state-sync transaction.

    Some nodes do not list this transaction in the block.
    """
    return "0x" + keccak(b"matic-bor-receipt-" + number.to_bytes(8, "big") + bytes.fromhex(block_hash[2:])).hex()


class Incompleteness(NamedTuple):
    """Why a block is or may be incomplete.

    Attributes:
        reason: The reason, as a part of a sentence about the block.
        is_acceptable: Whether the block is accepted as received when no further attempt is left.
    """

    reason: str
    is_acceptable: bool


@dataclass(frozen=True, slots=True)
class BlockResponse:
    """The data of a block that a node has sent, by one method or by both.

    Attributes:
        block: The block with all logs that the node has sent.
        bloom: The bloom filter in the block's header.
        hashes: The hashes of the block's transactions; empty when the node lists none.
        methods: The methods by which the node has sent the data.
        receipt_blooms: The bloom filters of the receipts that the node has sent, by transaction hash.
        has_no_state_sync: Whether the node has said that the block has no state-sync transaction.
    """

    block: Block
    bloom: str | None
    hashes: frozenset[str]
    methods: frozenset[Method]
    _: KW_ONLY
    receipt_blooms: Mapping[str, str | None] = field(default_factory=dict)
    has_no_state_sync: bool = False


def merged(known: BlockResponse | None, new: BlockResponse) -> BlockResponse:
    """Merge two responses, or return the new response if they are about different blocks."""
    if known is None or known.block.hash != new.block.hash:
        return new
    return replace(
        known,
        block=merged_block(known.block, new.block),
        hashes=known.hashes | new.hashes,
        methods=known.methods | new.methods,
        receipt_blooms={**known.receipt_blooms, **new.receipt_blooms},
        has_no_state_sync=known.has_no_state_sync or new.has_no_state_sync,
    )


def with_receipt(response: BlockResponse, receipt: Receipt | None) -> BlockResponse:
    """Add the receipt of the state-sync transaction to a response.

    `receipt` is None when the block has no state-sync transaction.
    """
    if receipt is None:
        return replace(response, has_no_state_sync=True)
    if receipt.block_hash != response.block.hash:
        return response
    hash_ = receipt.transaction_hash
    only_receipt = response.block._replace(logs=receipt.logs, parties={hash_: STATE_SYNC_PARTIES}, details={})
    block = merged_block(response.block, only_receipt)
    return replace(response, block=block, receipt_blooms={**response.receipt_blooms, hash_: receipt.logs_bloom})


def find_incompleteness(response: BlockResponse, sprint: int | None) -> Incompleteness | None:
    """Return why a response is or may be incomplete; None for a complete response.

    `sprint` is the number of blocks of a sprint; None for a chain without state-sync transactions.
    """
    block, logs = response.block, _by_transaction(response.block)
    blooms = {hash_: bloom_of(transaction_logs) for hash_, transaction_logs in logs.items()}
    if missing_bits(response.bloom, reduce(or_, blooms.values(), 0)):
        return Incompleteness("its bloom filter has bits that no received log sets", is_acceptable=False)
    if has_gap(block):
        return Incompleteness("the indexes of its logs have a gap", is_acceptable=False)
    for hash_, bloom in response.receipt_blooms.items():
        if missing_bits(bloom, blooms.get(hash_, 0)):
            return Incompleteness(f"logs of its transaction {hash_} are missing", is_acceptable=False)
    if (
        sprint is not None
        and block.number % sprint == 0
        and (incompleteness := _state_sync_incompleteness(response, logs))
    ):
        return incompleteness
    missing = response.hashes - response.receipt_blooms.keys() if "logs" not in response.methods else frozenset()
    if missing and missing != {state_sync_hash(block.number, block.hash)}:
        return Incompleteness(f"receipts of {len(missing)} of its transactions are missing", is_acceptable=True)
    return None


def _by_transaction(block: Block) -> dict[str, list[Log]]:
    by_transaction: dict[str, list[Log]] = {}
    for log in block.logs:
        by_transaction.setdefault(log.transaction_hash, []).append(log)
    return by_transaction


def has_gap(block: Block) -> bool:
    """Return whether a log index is missing.

    Log indexes count from 0 in the block. Some nodes restart at 0 in a transaction, which is not a gap.
    """
    expected, transaction = 0, ""
    for log in block.logs:
        index = int(log.log_index, 16)
        if index != expected and (index != 0 or log.transaction_hash == transaction):
            return True
        expected, transaction = index + 1, log.transaction_hash
    return False


def _state_sync_incompleteness(response: BlockResponse, logs: Mapping[str, list[Log]]) -> Incompleteness | None:
    hash_, used_both_methods = state_sync_transaction(response), len(response.methods) == len(METHODS)
    has_receipt, bloom = hash_ in response.receipt_blooms, response.receipt_blooms.get(hash_)
    if not has_receipt and hash_ in logs:
        return Incompleteness(
            f"no receipt says how many logs its state-sync transaction {hash_} has", is_acceptable=True
        )
    if not has_receipt and hash_ in response.hashes:
        return Incompleteness(f"the logs of its state-sync transaction {hash_} are missing", is_acceptable=False)
    if not has_receipt and not response.has_no_state_sync and not used_both_methods:
        return Incompleteness(
            "a single method does not show whether it has a state-sync transaction", is_acceptable=False
        )
    if has_receipt and not bloom and hash_ not in logs and not used_both_methods:
        return Incompleteness(f"the receipt of its state-sync transaction {hash_} has no logs", is_acceptable=True)
    return None


def complete_block(response: BlockResponse, sprint: int | None) -> Block:
    """Return the block with the sender and receiver of its state-sync transaction.

    Some nodes do not list this transaction, so the response lacks these two.
    """
    block = response.block
    hash_ = state_sync_transaction(response) if sprint is not None and block.number % sprint == 0 else ""
    if hash_ in block.parties or all(log.transaction_hash != hash_ for log in block.logs):
        return block
    return block._replace(parties={**block.parties, hash_: STATE_SYNC_PARTIES})


def state_sync_transaction(response: BlockResponse) -> str:
    """Return the hash of the block's state-sync transaction.

    It is the listed hash, or the hash that Bor derives.
    """
    for hash_, parties in response.block.parties.items():
        if parties == STATE_SYNC_PARTIES:
            return hash_
    return state_sync_hash(response.block.number, response.block.hash)
