"""A block as nodes return it: the result of `getBlock` with transactionDetails `full`, encoding `json` or `base64`.

A member that the node did not record is null or absent there, and None here. An empty list says that there were none.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from solders.message import Message as LegacyMessage
from solders.message import MessageAddressTableLookup, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from headwater.ingest.solana import base58

VOTE_PROGRAM: Final = "Vote111111111111111111111111111111111111111"
_VOTE_KEY: Final = Pubkey.from_string(VOTE_PROGRAM)
_MOST_VOTE_SIGNATURES: Final = 2
MAX_BLOCK_TIME: Final = 253_402_300_799
"""The last second of the year 9999."""
LEGACY: Final = "legacy"
TOP_LEVEL_STACK_HEIGHT: Final = 1
"""The stack height of the instructions that a transaction itself names."""


class _Struct(msgspec.Struct, rename="camel"):
    """Members that are not declared are skipped."""


class Amount(_Struct):
    """Of a token, in its smallest unit, as a decimal string."""

    amount: str
    decimals: int


class TokenBalance(_Struct):
    """Of the account with this index. Blocks of old nodes name no owner."""

    account_index: int
    mint: str
    ui_token_amount: Amount
    owner: str | None = None


class CompiledInstruction(_Struct):
    """data: base58. stack_height: 1 for an instruction of the transaction itself, and one more for each call within."""

    program_id_index: int
    accounts: list[int]
    data: str
    stack_height: int | None = None


class InnerInstructions(_Struct):
    """What the programs called that the instruction `index` ran."""

    index: int
    instructions: list[CompiledInstruction]


class LoadedAddresses(_Struct):
    """From lookup tables."""

    writable: list[str]
    readonly: list[str]


class Meta(_Struct):
    """How a transaction ended. Blocks of old nodes lack some."""

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
    """How the account keys are divided: signers first, in each part the writable ones first."""

    num_required_signatures: int
    num_readonly_signed_accounts: int
    num_readonly_unsigned_accounts: int


class TableLookup(_Struct):
    """The addresses that a transaction loads from the lookup table at account_key, by their indexes in the table."""

    account_key: str
    writable_indexes: list[int]
    readonly_indexes: list[int]


class Message(_Struct):
    """What was signed. Legacy messages have no address_table_lookups."""

    header: Header
    account_keys: list[str]
    recent_blockhash: str
    instructions: list[CompiledInstruction]
    address_table_lookups: list[TableLookup] | None = None


class JsonTransaction(_Struct):
    """The encoding `json`."""

    signatures: list[str]
    message: Message


class Entry(_Struct):
    """A transaction, or its wire format and the name of the encoding. version: `legacy` or a number."""

    transaction: JsonTransaction | tuple[str, str]
    meta: Meta | None = None
    version: str | int | None = None


class Link(_Struct):
    """A block without its transactions. parent_slot: of the block before; the slots between are skipped."""

    parent_slot: int


class Block(Link):
    """block_time: seconds since the epoch."""

    blockhash: str
    transactions: list[Entry]
    block_height: int | None = None
    block_time: Annotated[int, msgspec.Meta(ge=0, le=MAX_BLOCK_TIME)] | None = None


BLOCK: Final = msgspec.json.Decoder(Block | None)
LINK: Final = msgspec.json.Decoder(Link | None)


class Instruction(NamedTuple):
    """accounts, program: indexes of the transaction's account keys. base58: of the data."""

    program: int
    accounts: Sequence[int]
    data: bytes
    base58: str
    stack_height: int | None


class Signed(NamedTuple):
    """A transaction, whatever its encoding. lookups: None in a legacy transaction, which can have none."""

    version: str
    signatures: list[str]
    header: Header
    account_keys: list[str]
    recent_blockhash: str
    instructions: list[Instruction]
    lookups: list[TableLookup] | None


def signed(entry: Entry) -> Signed | None:
    """The transaction of an entry; None for a vote. Raises ValueError when the entry can't be read."""
    if isinstance(entry.transaction, tuple):
        return _from_wire(*entry.transaction)
    signatures, message = entry.transaction.signatures, entry.transaction.message
    version = _version(entry.version, message.address_table_lookups)
    programs = [message.account_keys[one.program_id_index : one.program_id_index + 1] for one in message.instructions]
    if _is_vote(version == LEGACY, len(signatures), programs == [[VOTE_PROGRAM]]):
        return None
    return Signed(
        version,
        signatures,
        message.header,
        message.account_keys,
        message.recent_blockhash,
        [instruction(one, TOP_LEVEL_STACK_HEIGHT) for one in message.instructions],
        None if version == LEGACY else message.address_table_lookups,
    )


def _is_vote(is_legacy: bool, signatures: int, runs_vote_program_only: bool) -> bool:
    """The rule by which Agave, the validator's software, marks simple vote transactions.

    See `is_simple_vote_transaction` there. Whatever else runs the vote program, or only names it, is no vote.
    """
    return runs_vote_program_only and is_legacy and signatures <= _MOST_VOTE_SIGNATURES


def _version(named: str | int | None, lookups: list[TableLookup] | None) -> str:
    """Nodes that know of legacy transactions alone name no version."""
    if named is None:
        return LEGACY if lookups is None else "0"
    return str(named)


def instruction(compiled: CompiledInstruction, stack_height: int | None) -> Instruction:
    """Raises ValueError when the data is not in base58."""
    data = base58.decode(compiled.data)
    return Instruction(compiled.program_id_index, compiled.accounts, data, compiled.data, stack_height)


def _from_wire(content: str, encoding: str) -> Signed | None:
    if encoding != "base64":
        raise ValueError(f"the encoding {encoding} is not known")
    parsed = VersionedTransaction.from_bytes(base64.b64decode(content, validate=True))
    message, keys = parsed.message, parsed.message.account_keys
    if not isinstance(message, LegacyMessage | MessageV0):
        raise ValueError("its version is not supported")
    is_legacy = isinstance(message, LegacyMessage)
    programs = [keys[one.program_id_index : one.program_id_index + 1] for one in message.instructions]
    if _is_vote(is_legacy, len(parsed.signatures), programs == [[_VOTE_KEY]]):
        return None
    return Signed(
        LEGACY if is_legacy else "0",
        [str(signature) for signature in parsed.signatures],
        Header(
            message.header.num_required_signatures,
            message.header.num_readonly_signed_accounts,
            message.header.num_readonly_unsigned_accounts,
        ),
        [str(key) for key in keys],
        str(message.recent_blockhash),
        [
            Instruction(one.program_id_index, one.accounts, one.data, base58.encode(one.data), TOP_LEVEL_STACK_HEIGHT)
            for one in message.instructions
        ],
        [_lookup(one) for one in message.address_table_lookups] if isinstance(message, MessageV0) else None,
    )


def _lookup(lookup: MessageAddressTableLookup) -> TableLookup:
    return TableLookup(str(lookup.account_key), list(lookup.writable_indexes), list(lookup.readonly_indexes))
