"""A block as nodes tell it: the result of `getBlock` with transactionDetails `full`, encoding `json` or `base64`."""

import base64
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from headwater.ingest.solana import base58

VOTE_PROGRAM: Final = "Vote111111111111111111111111111111111111111"
_VOTE_KEY: Final = Pubkey.from_string(VOTE_PROGRAM)


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
    """data: base58."""

    program_id_index: int
    accounts: list[int]
    data: str


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


class Header(_Struct):
    """How the account keys are divided: signers first, in each part the writable ones first."""

    num_required_signatures: int
    num_readonly_signed_accounts: int
    num_readonly_unsigned_accounts: int


class Message(_Struct):
    """What was signed."""

    header: Header
    account_keys: list[str]
    recent_blockhash: str
    instructions: list[CompiledInstruction]


class JsonTransaction(_Struct):
    """The encoding `json`."""

    signatures: list[str]
    message: Message


class Entry(_Struct):
    """A transaction, or its wire format and the name of the encoding."""

    transaction: JsonTransaction | tuple[str, str]
    meta: Meta | None = None


class Link(_Struct):
    """A block without its transactions. parent_slot: of the block before; the slots between are skipped."""

    parent_slot: int


class Block(Link):
    """block_time: seconds since the epoch."""

    blockhash: str
    transactions: list[Entry]
    block_height: int | None = None
    block_time: int | None = None


BLOCK: Final = msgspec.json.Decoder(Block | None)
LINK: Final = msgspec.json.Decoder(Link | None)


class Instruction(NamedTuple):
    """accounts, program: indexes of the transaction's account keys. base58: of the data."""

    program: int
    accounts: Sequence[int]
    data: bytes
    base58: str


class Signed(NamedTuple):
    """A transaction, whatever its encoding."""

    signatures: list[str]
    header: Header
    account_keys: list[str]
    recent_blockhash: str
    instructions: list[Instruction]


def signed(transaction: JsonTransaction | tuple[str, str]) -> Signed | None:
    """None for a vote: a transaction with the vote program among its accounts. Raises ValueError when it is none."""
    if isinstance(transaction, tuple):
        return _from_wire(*transaction)
    message = transaction.message
    if VOTE_PROGRAM in message.account_keys:
        return None
    instructions = [instruction(one) for one in message.instructions]
    return Signed(transaction.signatures, message.header, message.account_keys, message.recent_blockhash, instructions)


def instruction(compiled: CompiledInstruction) -> Instruction:
    """Raises ValueError when the data is not in base58."""
    data = base58.decode(compiled.data)
    return Instruction(compiled.program_id_index, compiled.accounts, data, compiled.data)


def _from_wire(content: str, encoding: str) -> Signed | None:
    if encoding != "base64":
        raise ValueError(f"the encoding {encoding} is not known")
    parsed = VersionedTransaction.from_bytes(base64.b64decode(content, validate=True))
    message = parsed.message
    if _VOTE_KEY in message.account_keys:
        return None
    return Signed(
        [str(signature) for signature in parsed.signatures],
        Header(
            message.header.num_required_signatures,
            message.header.num_readonly_signed_accounts,
            message.header.num_readonly_unsigned_accounts,
        ),
        [str(key) for key in message.account_keys],
        str(message.recent_blockhash),
        [
            Instruction(one.program_id_index, one.accounts, one.data, base58.encode(one.data))
            for one in message.instructions
        ],
    )
