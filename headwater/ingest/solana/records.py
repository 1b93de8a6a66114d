"""Converts blocks to records of the stream `nonvoting_transaction`.

The members have the names that docs/reference/streams.md lists. `parsed`, `parsed_type` and `program_name` are null,
because only the node's parser (encoding `jsonParsed`) could provide them. The parser is not used, because its output
depends on the version of the node and omits the raw data of parsed instructions. Here every instruction has its raw
data. A value that the node did not record is null, never empty.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from headwater.ingest.base import StreamRecord
from headwater.ingest.solana.blocks import (
    Block,
    DecodedTransaction,
    Header,
    Instruction,
    Meta,
    TableLookup,
    TokenBalance,
    TransactionEntry,
    decode_instruction,
    decode_transaction,
)

ENTITY: Final = "nonvoting_transaction"

_encode: Final = msgspec.json.Encoder().encode
Json = dict[str, Any]


def records(block: Block, slot: int, chain_name: str) -> Iterator[StreamRecord]:
    """Yield a record for each transaction of a block except votes.

    Raises ValueError or IndexError when a transaction can't be converted.
    """
    block_members = {
        "block_slot": slot,
        "block_height": block.block_height,
        "block_timestamp": _timestamp(block.block_time),
        "block_hash": block.blockhash,
    }
    for index, entry in enumerate(block.transactions):
        record = transaction_record(entry, index, block_members)
        if record is not None:
            yield StreamRecord(ENTITY, f"{chain_name}:{record['txn_id']}".encode(), _encode(record))


def transaction_record(entry: TransactionEntry, index: int, block_members: Json) -> Json | None:
    """Return the record of a transaction; None for a vote.

    `block_members` are the members of the record that describe the block. Raises ValueError or IndexError when the
    transaction can't be converted.
    """
    transaction, meta = decode_transaction(entry), entry.meta
    if transaction is None:
        return None
    if meta is None:
        raise ValueError(f"the node does not say how transaction {index} ended (it keeps no transaction history)")
    return {**block_members, **_Transaction(transaction, meta, index).record()}


class _Transaction:
    """Converts one transaction to a record."""

    def __init__(self, transaction: DecodedTransaction, meta: Meta, index: int) -> None:
        self._transaction = transaction
        self._meta = meta
        self._index = index
        self._txn_id = transaction.signatures[0]
        self._success = bytes(meta.err) == b"null"
        self._keys = [*transaction.account_keys]
        if meta.loaded_addresses is None:
            if transaction.lookups:
                raise ValueError(f"the node does not say which addresses transaction {index} loads from lookup tables")
        else:
            self._keys += [*meta.loaded_addresses.writable, *meta.loaded_addresses.readonly]

    def record(self) -> Json:
        transaction, meta = self._transaction, self._meta
        before, after = (self._token_balances(kind) for kind in (meta.pre_token_balances, meta.post_token_balances))
        balances = None if before is None or after is None else [*before, *after]
        outer, inner = self._instructions()
        return {
            "txn_id": self._txn_id,
            "txn_index": self._index,
            "version": transaction.version,
            "signatures": transaction.signatures,
            "fee": meta.fee,
            "compute_units_consumed": meta.compute_units_consumed,
            "err": _error(meta.err),
            "success": self._success,
            "is_voting": False,
            "recent_block_hash": transaction.recent_blockhash,
            "signer": self._keys[0],
            "account_keys": self._account_keys(),
            "pubkeys": self._keys,
            "address_table_lookups": _lookups(transaction.lookups),
            "log_messages": meta.log_messages,
            "pre_balances": meta.pre_balances,
            "post_balances": meta.post_balances,
            "pre_token_balances": before,
            "post_token_balances": after,
            "mint_to_decimals": _mapping(balances, "mint", "decimals"),
            "token_accounts": _mapping(balances, "account", "mint"),
            "sol_amounts": self._sol_amounts(),
            "instruction_count": len(outer),
            "instructions": outer,
            "inner_instructions": inner,
        }

    def _account_keys(self) -> list[Json]:
        own_count = len(self._transaction.account_keys)
        writable = _writable(self._transaction.header, own_count)
        loaded = self._meta.loaded_addresses
        writable += [True] * len(loaded.writable) + [False] * len(loaded.readonly) if loaded else []
        signers = self._transaction.header.num_required_signatures
        return [
            {
                "pubkey": key,
                "signer": index < signers,
                "source": "transaction" if index < own_count else "lookupTable",
                "writable": is_writable,
            }
            for index, (key, is_writable) in enumerate(zip(self._keys, writable, strict=True))
        ]

    def _token_balances(self, balances: Sequence[TokenBalance] | None) -> list[Json] | None:
        if balances is None:
            return None
        return [
            {
                "account_index": balance.account_index,
                "account": self._keys[balance.account_index],
                "amount": balance.ui_token_amount.amount,
                "mint": balance.mint,
                "owner": balance.owner,
                "decimals": balance.ui_token_amount.decimals,
            }
            for balance in balances
        ]

    def _sol_amounts(self) -> dict[str, int]:
        balances = zip(self._keys, self._meta.pre_balances, self._meta.post_balances, strict=True)
        return {key: after - before for key, before, after in balances if after != before}

    def _instructions(self) -> tuple[list[Json], list[Json] | None]:
        """Return the transaction's instructions, and the inner instructions.

        The latter are None if the node did not record them.
        """
        recorded = self._meta.inner_instructions
        groups = {group.index: group.instructions for group in recorded or ()}
        outer: list[Json] = []
        inner: list[Json] = []
        for index, instruction in enumerate(self._transaction.instructions):
            inner_instructions = groups.get(index, ())
            count = None if recorded is None else len(inner_instructions)
            outer.append({**self._instruction(instruction, index), "inner_instruction_count": count})
            inner += [
                {
                    **self._instruction(decode_instruction(compiled, compiled.stack_height), index),
                    "inner_instruction_count": None,
                    "inner_instruction_index": inner_index,
                    "parent_instruction_program_id": self._keys[instruction.program],
                }
                for inner_index, compiled in enumerate(inner_instructions)
            ]
        return outer, None if recorded is None else inner

    def _instruction(self, instruction: Instruction, index: int) -> Json:
        """Return the members of an instruction.

        `index` is the index of the instruction, or of the instruction that called it, in the transaction.
        """
        keys = self._keys
        return {
            "txn_id": self._txn_id,
            "txn_index": self._index,
            "instruction_index": index,
            "program_id": keys[instruction.program],
            "program_name": None,
            "parsed": None,
            "parsed_type": None,
            "accounts": [keys[account] for account in instruction.accounts],
            "data": instruction.base58,
            "data_hex": instruction.data.hex(),
            "stack_height": instruction.stack_height,
            "is_voting": False,
            "parent_tx_signer": keys[0],
            "parent_tx_success": self._success,
        }


def _writable(header: Header, key_count: int) -> list[bool]:
    """Return whether each account is writable according to the message header.

    The runtime treats system accounts and called programs as read-only, even when they are writable by the header.
    """
    signers = header.num_required_signatures
    writable_signers = signers - header.num_readonly_signed_accounts
    writable_end = key_count - header.num_readonly_unsigned_accounts
    return [index < writable_signers or signers <= index < writable_end for index in range(key_count)]


def _lookups(lookups: Sequence[TableLookup] | None) -> list[Json] | None:
    return None if lookups is None else [msgspec.structs.asdict(lookup) for lookup in lookups]


def _mapping(balances: Sequence[Json] | None, name: str, value: str) -> Json | None:
    """Return a mapping from one member of token balances to another.

    Returns None if the node did not record all balances.
    """
    return None if balances is None else {balance[name]: balance[value] for balance in balances}


def _timestamp(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _error(err: msgspec.Raw) -> str | None:
    """Return a named error such as `AccountInUse` unchanged, other errors as JSON."""
    decoded = msgspec.json.decode(err)
    return decoded if decoded is None or isinstance(decoded, str) else _encode(decoded).decode()
