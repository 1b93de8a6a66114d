"""The structures of blocks, which are results of `getBlock` with transactionDetails `full`.

The encoding is `json` or `base64`. A member that the node did not record is null or absent in JSON, and None in these
structs. A member without items is an empty list.
"""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from headwater.ingest.solana import base58

VOTE_PROGRAM: Final = "Vote111111111111111111111111111111111111111"
_MAX_VOTE_SIGNATURES: Final = 2
MAX_BLOCK_TIME: Final = 253_402_300_799
"""The last second of the year 9999."""
LEGACY: Final = "legacy"
TOP_LEVEL_STACK_HEIGHT: Final = 1
"""The stack height of the instructions in the message of a transaction."""


class _Struct(msgspec.Struct, rename="camel"):
    """Base of the structures. Decoding skips members that a structure does not declare."""


class Amount(_Struct):
    """A token amount in the token's smallest unit, as a decimal string."""

    amount: str
    decimals: int


class TokenBalance(_Struct):
    """The token balance of the account at `account_index`. Blocks of old nodes have no owner."""

    account_index: int
    mint: str
    ui_token_amount: Amount
    owner: str | None = None


class CompiledInstruction(_Struct):
    """An instruction.

    Attributes:
        data: The data in base58.
        stack_height: 1 for an instruction of the transaction itself, plus 1 for each nested call.
    """

    program_id_index: int
    accounts: list[int]
    data: str
    stack_height: int | None = None


class InnerInstructions(_Struct):
    """The instructions that programs called (CPI) while instruction `index` ran."""

    index: int
    instructions: list[CompiledInstruction]


class LoadedAddresses(_Struct):
    """The addresses that a transaction loaded from lookup tables."""

    writable: list[str]
    readonly: list[str]


class Meta(_Struct):
    """The outcome of a transaction. Blocks of old nodes lack some members."""

    err: msgspec.Raw
    fee: int
    pre_balances: list[int]
    post_balances: list[int]
    inner_instructions: list[InnerInstructions] | None = None
    log_messages: list[str] | None = None
    pre_token_balances: list[TokenBalance] | None = None
    post_token_balances: list[TokenBalance] | None = None
    loaded_addresses: LoadedAddresses | None = None
    compute_units_consumed: int | None = None


class Header(_Struct):
    """The numbers by which the account keys are divided.

    Signers come first, and in each part writable keys come first.
    """

    num_required_signatures: int
    num_readonly_signed_accounts: int
    num_readonly_unsigned_accounts: int


class TableLookup(_Struct):
    """The indexes of addresses that a transaction loads from the lookup table at `account_key`."""

    account_key: str
    writable_indexes: list[int]
    readonly_indexes: list[int]


class Message(_Struct):
    """The signed message of a transaction. Legacy messages have no address_table_lookups."""

    header: Header
    account_keys: list[str]
    recent_blockhash: str
    instructions: list[CompiledInstruction]
    address_table_lookups: list[TableLookup] | None = None


class JsonTransaction(_Struct):
    """A transaction in the encoding `json`."""

    signatures: list[str]
    message: Message


class TransactionEntry(_Struct):
    """A transaction of a block, with its outcome.

    Attributes:
        transaction: The transaction; in the encoding `base64`, the pair of its data and the name of the encoding.
        meta: The outcome.
        version: `legacy` or a number.
    """

    transaction: JsonTransaction | tuple[str, str]
    meta: Meta | None = None
    version: str | int | None = None


class BlockLink(_Struct):
    """A block without its transactions.

    Attributes:
        parent_slot: The slot of the previous block. The slots between the previous block and this one are skipped.
    """

    parent_slot: int


class Block(BlockLink):
    """A block with its transactions. `block_time` is in seconds since the epoch."""

    blockhash: str
    transactions: list[TransactionEntry]
    block_height: int | None = None
    block_time: Annotated[int, msgspec.Meta(ge=0, le=MAX_BLOCK_TIME)] | None = None


BLOCK: Final = msgspec.json.Decoder(Block | None)
BLOCK_LINK: Final = msgspec.json.Decoder(BlockLink | None)


class Instruction(NamedTuple):
    """A decoded instruction.

    Attributes:
        program: The index of the program in the transaction's account keys.
        accounts: The indexes of the accounts in the transaction's account keys.
        data: The decoded data.
        base58: The data in base58.
        stack_height: See CompiledInstruction.
    """

    program: int
    accounts: Sequence[int]
    data: bytes
    base58: str
    stack_height: int | None


class DecodedTransaction(NamedTuple):
    """A transaction, decoded from either encoding.

    `lookups` is None in a legacy transaction, which can't load addresses from lookup tables.
    """

    version: str
    signatures: list[str]
    header: Header
    account_keys: list[str]
    recent_blockhash: str
    instructions: list[Instruction]
    lookups: list[TableLookup] | None


def decode_transaction(entry: TransactionEntry) -> DecodedTransaction | None:
    """Return the decoded transaction of an entry; None for a vote.

    Raises ValueError when the entry can't be decoded.
    """
    if isinstance(entry.transaction, tuple):
        from headwater.ingest.solana.wire import decode_wire  # needs an extra of the package

        return decode_wire(*entry.transaction)
    signatures, message = entry.transaction.signatures, entry.transaction.message
    version = _version(entry.version, message.address_table_lookups)
    programs = [
        message.account_keys[compiled.program_id_index : compiled.program_id_index + 1]
        for compiled in message.instructions
    ]
    if is_vote(version == LEGACY, len(signatures), programs == [[VOTE_PROGRAM]]):
        return None
    return DecodedTransaction(
        version,
        signatures,
        message.header,
        message.account_keys,
        message.recent_blockhash,
        [decode_instruction(compiled, TOP_LEVEL_STACK_HEIGHT) for compiled in message.instructions],
        None if version == LEGACY else message.address_table_lookups,
    )


def is_vote(is_legacy: bool, signatures: int, runs_vote_program_only: bool) -> bool:
    """Return whether a transaction is a simple vote.

    The rule is `is_simple_vote_transaction` of the validator Agave. Other transactions that run or name the vote
    program are not votes.
    """
    return runs_vote_program_only and is_legacy and signatures <= _MAX_VOTE_SIGNATURES


def _version(version: str | int | None, lookups: list[TableLookup] | None) -> str:
    """Return the version of a transaction.

    Nodes that know only legacy transactions omit the version.
    """
    if version is None:
        return LEGACY if lookups is None else "0"
    return str(version)


def decode_instruction(compiled: CompiledInstruction, stack_height: int | None) -> Instruction:
    """Decode an instruction. Raises ValueError when its data is not base58."""
    data = base58.decode(compiled.data)
    return Instruction(compiled.program_id_index, compiled.accounts, data, compiled.data, stack_height)
