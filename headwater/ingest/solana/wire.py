"""Decodes transactions in the wire format, which the encoding `base64` has. Needs the extra `solana`."""

import base64

from solders.message import Message as LegacyMessage
from solders.message import MessageAddressTableLookup, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from headwater.ingest.solana import base58
from headwater.ingest.solana.blocks import (
    LEGACY,
    TOP_LEVEL_STACK_HEIGHT,
    VOTE_PROGRAM,
    DecodedTransaction,
    Header,
    Instruction,
    TableLookup,
    is_vote,
)

_VOTE_KEY = Pubkey.from_string(VOTE_PROGRAM)


def decode_wire(content: str, encoding: str) -> DecodedTransaction | None:
    """Decode a transaction; None for a vote. Raises ValueError when it can't be decoded."""
    if encoding != "base64":
        raise ValueError(f"the encoding {encoding} is not known")
    parsed = VersionedTransaction.from_bytes(base64.b64decode(content, validate=True))
    message, keys = parsed.message, parsed.message.account_keys
    if not isinstance(message, LegacyMessage | MessageV0):
        raise ValueError("its version is not supported")
    is_legacy = isinstance(message, LegacyMessage)
    programs = [keys[one.program_id_index : one.program_id_index + 1] for one in message.instructions]
    if is_vote(is_legacy, len(parsed.signatures), programs == [[_VOTE_KEY]]):
        return None
    return DecodedTransaction(
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
