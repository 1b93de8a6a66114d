"""Decodes transactions in the wire format, which is the content of the encoding `base64`.

This module needs the extra `solana`.
"""

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
    """Return the decoded transaction; None for a vote.

    Raises ValueError when the content can't be decoded.
    """
    if encoding != "base64":
        raise ValueError(f"the encoding {encoding} is not known")
    parsed = VersionedTransaction.from_bytes(base64.b64decode(content, validate=True))
    message, keys = parsed.message, parsed.message.account_keys
    if not isinstance(message, LegacyMessage | MessageV0):
        raise ValueError("the version of a transaction is not supported")
    is_legacy = isinstance(message, LegacyMessage)
    programs = [keys[compiled.program_id_index : compiled.program_id_index + 1] for compiled in message.instructions]
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
            Instruction(
                compiled.program_id_index,
                compiled.accounts,
                compiled.data,
                base58.encode(compiled.data),
                TOP_LEVEL_STACK_HEIGHT,
            )
            for compiled in message.instructions
        ],
        [_lookup(lookup) for lookup in message.address_table_lookups] if isinstance(message, MessageV0) else None,
    )


def _lookup(lookup: MessageAddressTableLookup) -> TableLookup:
    return TableLookup(str(lookup.account_key), list(lookup.writable_indexes), list(lookup.readonly_indexes))
