"""Checks whether a node has sent all logs of a block: pure functions over the node's responses.

A block's header has a bloom filter of its logs and the hashes of its transactions, and the logs are numbered. On
Polygon a state-sync transaction may end a block; its logs are in no filter of the header, and some nodes leave them out
of one method or the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Final, Literal, NamedTuple

from eth_hash.auto import keccak

from headwater.ingest.evm.blocks import SYSTEM_PARTIES, Block, Log, Receipt, united
from headwater.ingest.evm.bloom import bloom_of, missing_bits

Method = Literal["receipts", "logs"]
METHODS: Final[tuple[Method, Method]] = ("receipts", "logs")

SPRINTS: Final[Mapping[int, int]] = {137: 16, 80002: 16}
"""Blocks of a sprint by chain id (Bor). State is synced at its first block; sprints had 64 blocks before Delhi."""


def state_sync_hash(number: int, block_hash: str) -> str:
    """The hash that Bor gives to a block's state-sync transaction, which is not in the block's body."""
    return "0x" + keccak(b"matic-bor-receipt-" + number.to_bytes(8, "big") + bytes.fromhex(block_hash[2:])).hex()


class Fault(NamedTuple):
    """Why a block may be incomplete. certain: True when something is missing, False when that can't be told."""

    reason: str
    certain: bool


@dataclass(frozen=True, slots=True)
class BlockResponse:
    """What a node has sent of a block, by one method or by several.

    Attributes:
        block: The block with all logs that the node has sent.
        bloom: The bloom filter in the block's header.
        hashes: The hashes of the block's transactions; empty when the node lists none.
        methods: The methods by which the node has sent this.
        receipt_blooms: The bloom filters of the receipts that the node has sent, by transaction hash.
        no_state_sync: Whether the node says that the block has no state-sync transaction.
    """

    block: Block
    bloom: str | None
    hashes: frozenset[str]
    methods: frozenset[Method]
    receipt_blooms: Mapping[str, str | None] = field(default_factory=dict)
    no_state_sync: bool = False


def combined(known: BlockResponse | None, new: BlockResponse) -> BlockResponse:
    """Both responses as one; the new one alone when they are about different blocks of the same number."""
    if known is None or known.block.hash != new.block.hash:
        return new
    return replace(
        known,
        block=united(known.block, new.block),
        hashes=known.hashes | new.hashes,
        methods=known.methods | new.methods,
        receipt_blooms={**known.receipt_blooms, **new.receipt_blooms},
        no_state_sync=known.no_state_sync or new.no_state_sync,
    )


def with_receipt(answer: BlockResponse, receipt: Receipt | None) -> BlockResponse:
    """The response, with the receipt of its state-sync transaction. receipt: None when the block has no such one."""
    if receipt is None:
        return replace(answer, no_state_sync=True)
    if receipt.block_hash != answer.block.hash:
        return answer
    hash_ = receipt.transaction_hash
    found = answer.block._replace(logs=receipt.logs, parties={hash_: SYSTEM_PARTIES}, details={})
    block = united(answer.block, found)
    return replace(answer, block=block, receipt_blooms={**answer.receipt_blooms, hash_: receipt.logs_bloom})


def fault_of(answer: BlockResponse, sprint: int | None) -> Fault | None:
    """What is wrong with a response; None when nothing is.

    sprint: The blocks of a sprint of the chain; None for a chain without state-sync transactions.
    """
    block, logs = answer.block, _by_transaction(answer.block)
    blooms = {hash_: bloom_of(of_transaction) for hash_, of_transaction in logs.items()}
    if missing_bits(answer.bloom, reduce(or_, blooms.values(), 0)):
        return Fault("its bloom filter has bits that no log explains", certain=True)
    if has_gap(block):
        return Fault("the numbers of its logs have a gap", certain=True)
    for hash_, bloom in answer.receipt_blooms.items():
        if missing_bits(bloom, blooms.get(hash_, 0)):
            return Fault(f"logs of its transaction {hash_} are missing", certain=True)
    if sprint is not None and block.number % sprint == 0 and (fault := _state_sync_fault(answer, logs)):
        return fault
    missing = answer.hashes - answer.receipt_blooms.keys() if "logs" not in answer.methods else frozenset()
    if missing and missing != {state_sync_hash(block.number, block.hash)}:
        return Fault(f"receipts of {len(missing)} of its transactions are missing", certain=False)
    return None


def _by_transaction(block: Block) -> dict[str, list[Log]]:
    found: dict[str, list[Log]] = {}
    for log in block.logs:
        found.setdefault(log.transaction_hash, []).append(log)
    return found


def has_gap(block: Block) -> bool:
    """Whether a number is missing among the log indexes.

    Log indexes count from 0 in the block. Some nodes count from 0 again in a transaction, which is no gap.
    """
    expected, transaction = 0, ""
    for log in block.logs:
        index = int(log.log_index, 16)
        if index != expected and (index != 0 or log.transaction_hash == transaction):
            return True
        expected, transaction = index + 1, log.transaction_hash
    return False


def _state_sync_fault(answer: BlockResponse, logs: Mapping[str, list[Log]]) -> Fault | None:
    hash_, both = state_sync_transaction(answer), len(answer.methods) == len(METHODS)
    has_receipt, bloom = hash_ in answer.receipt_blooms, answer.receipt_blooms.get(hash_)
    if not has_receipt and hash_ in logs:
        return Fault(f"no receipt says how many logs its state-sync transaction {hash_} has", certain=False)
    if not has_receipt and hash_ in answer.hashes:
        return Fault(f"the logs of its state-sync transaction {hash_} are missing", certain=True)
    if not has_receipt and not answer.no_state_sync and not both:
        return Fault("one method alone does not tell whether it has a state-sync transaction", certain=True)
    if has_receipt and not bloom and hash_ not in logs and not both:
        return Fault(f"the receipt of its state-sync transaction {hash_} has no logs", certain=False)
    return None


def whole_block(answer: BlockResponse, sprint: int | None) -> Block:
    """The block of a response without a fault, with the parties of its state-sync transaction, which no list names."""
    block = answer.block
    hash_ = state_sync_transaction(answer) if sprint is not None and block.number % sprint == 0 else ""
    if hash_ in block.parties or all(log.transaction_hash != hash_ for log in block.logs):
        return block
    return block._replace(parties={**block.parties, hash_: SYSTEM_PARTIES})


def state_sync_transaction(answer: BlockResponse) -> str:
    """The hash of the block's state-sync transaction: the listed one, or the one that Bor derives."""
    for hash_, parties in answer.block.parties.items():
        if parties == SYSTEM_PARTIES:
            return hash_
    return state_sync_hash(answer.block.number, answer.block.hash)
